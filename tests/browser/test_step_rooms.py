"""The pictures of steps in a page: what changed, and the two programs side by side."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page

import explorer
from tests.browser import by_hand
from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import house as house_of
from tests.browser.over_session import saved_house, settle
from widgets.session.session import Session

pytestmark = pytest.mark.browser
SAYS = """words => [...document.querySelectorAll(".house :is(.see, .drawn :is(svg.pic,p.words))")]
    .some(n => (n.getAttribute("aria-label") ?? n.textContent).includes(words))"""


SAID = """([where, words]) => document.querySelector(where)?.textContent.includes(words)"""


@pytest.fixture(scope="module")
def session() -> Session:
    return by_hand.session(measured=True)


def open_(house: Page, stage: str, room: str) -> None:
    house.evaluate("name => driver.stage(name)", stage)
    house.evaluate("room => driver.go(room)", room)
    house.wait_for_selector(".pw .rbar select[aria-label=step]")


def test_what_a_step_changed_is_listed_under_its_stage_and_follows_the_selection(
    house: Page,
) -> None:
    open_(house, "WELDED", "changes")
    svg = house.locator(".picture svg.pic")
    assert "1 removed, 1 changed, 1 moved" in (svg.get_attribute("aria-label") or "")
    svg.locator("text", has_text="now part of").click()
    settle(house)
    assert house.inner_text(".pi h2") == "relu"
    assert svg.locator(".lit").count() >= 1
    step = house.locator(".rbar select[aria-label=step] option", has_text="legalized").first
    house.select_option(".rbar select[aria-label=step]", label=step.text_content())
    house.wait_for_selector(".stage[data-stage=LEGALIZED][aria-current=step]")
    house.wait_for_function(SAYS, arg="legalized: ")
    house.select_option(".rbar select[aria-label='compared with']", label="A")
    house.wait_for_function(SAYS, arg="no difference")


@pytest.mark.parametrize("house", [(900, "dark"), exhaustive((1440, "light"))], indirect=True)
def test_lines_stand_beside_each_other_and_scroll_together(house: Page) -> None:
    open_(house, "LEGALIZED", "side_by_side")
    sides = house.locator(".sides .code")
    assert sides.count() == 2
    tops = sides.evaluate_all(
        "boxes => boxes.map(b => [...b.querySelectorAll('.ln')].map(n => n.style.top))"
    )
    assert tops[0] == tops[1] and len(tops[0]) > 5
    words = house.locator(".sides .code").nth(1).locator(".ln.add mark").all_text_contents()
    assert words and all(word.strip() for word in words)
    assert house.locator(".sides .ln.gap").count() >= 1
    sides.first.evaluate("box => { box.scrollTop = 34; box.scrollLeft = 20; }")
    settle(house)
    where = sides.evaluate_all("boxes => boxes.map(b => [b.scrollTop, b.scrollLeft])")
    assert where[0] == where[1]
    house.locator(".sides button", has_text="All lines").click()
    assert house.locator(".sides button[aria-pressed=true]").count() == 1


@pytest.mark.parametrize(("width", "scheme"), [(900, "dark"), exhaustive(1280, "light")])
def test_matches_are_gone_through_with_the_source_of_their_rule(
    browser: Browser, width: int, scheme: str
) -> None:
    session = Session(explorer.compile("zoo:tiny_bert", until="planned"))
    with house_of(browser, session, width=width, scheme=scheme) as page:
        open_(page, "LEGALIZED", "matches")
        step = page.locator(".rbar select[aria-label=step] option", has_text="legalise")
        page.select_option(".rbar select[aria-label=step]", label=step.text_content())
        page.wait_for_function(SAID, arg=[".matches b", "of 83"])
        assert page.locator(".matches .code").first.locator(".ln.del").count() == 1
        assert page.locator(".matches .code").first.locator(".ln.add").count() >= 1
        place = page.locator(".rule .place")
        before = place.inner_text()
        assert before.startswith("explorer/ops/")
        shown = page.locator(".rule .code .ln").first
        assert shown.inner_text().startswith(before.rpartition(":")[2])
        assert "def " in page.locator(".rule .code").inner_text()
        number = int(page.inner_text(".matches b").split()[1])  # of the operator on show
        page.locator(".matches [aria-label^='Next match']").click()
        page.wait_for_function(SAID, arg=[".matches b", f"match {number % 83 + 1} "])
        page.locator(".house").focus()
        page.keyboard.press("/")
        page.keyboard.type("MatMul_70")
        page.keyboard.press("Enter")
        page.wait_for_function(SAID, arg=[".matches select option:checked", "MatMul_70"])
        assert page.locator(".matches .ln.lit").count() >= 2


def test_a_saved_page_has_both_for_every_step(browser: Browser) -> None:
    with saved_house(browser, by_hand.content(False)) as page:
        for stage in ("LEGALIZED", "WELDED"):
            open_(page, stage, "changes")
            page.wait_for_function(SAYS, arg=f"{stage.lower()}: ")
            page.evaluate("driver.go('side_by_side')")
            page.wait_for_selector(".sides .ln.add")


@pytest.mark.exhaustive
@pytest.mark.parametrize(("width", "scheme"), [(900, "dark"), exhaustive(1280, "light")])
def test_a_step_is_switched_off_and_on_and_refused_on_the_board(
    browser: Browser, width: int, scheme: str
) -> None:
    session = Session(explorer.compile("zoo:tiny_bert", until="planned"))
    with house_of(browser, session, width=width, scheme=scheme) as page:
        page.evaluate("driver.stage('LEGALIZED')")
        page.evaluate("driver.go('switchboard')")
        page.wait_for_selector(".switches tbody tr")
        idle = page.locator(".switches tr.idle").all_inner_texts()
        assert any("inline calls" in text for text in idle)
        page.get_by_label("tile (Roller) is on").click()
        page.wait_for_function(SAID, arg=[".switches .note", "'schedule (Rammer)' needs tiles"])
        assert page.get_by_label("tile (Roller) is on").is_checked()
        page.get_by_label("put channels last is on").click()
        page.wait_for_selector(".switches tr.off")
        assert "put channels last" in page.locator(".switches tr.off").inner_text()
        assert not page.get_by_label("put channels last is on").is_checked()
        page.get_by_label("Place of remove dead code").select_option("first of its stage")
        page.wait_for_function(SAID, arg=[".switches .note", "it needs kernels"])
        page.get_by_label("Place of clean up").select_option("after legalise to kernels")
        page.wait_for_function(
            "() => { const names = [...document.querySelectorAll('.switches tbody tr')]"
            ".map(row => row.children[1].textContent);"
            " return names[names.indexOf('clean up') - 1] === 'legalise to kernels'; }"
        )
        page.get_by_label("put channels last is on").click()
        page.wait_for_function("!document.querySelector('.switches tr.off')")
        page.locator(".switches .lk", has_text="legalise to kernels").click()
        page.wait_for_function(SAYS, arg="legalise to kernels: ")


def test_a_number_lights_lines_and_rows(browser: Browser) -> None:
    session = Session(explorer.compile("zoo:tiny_bert", until="planned"))
    with house_of(browser, session, width=1280) as page:
        page.evaluate("driver.stage('LEGALIZED')")
        lit = "[...document.querySelectorAll('.lights [data-k].on')].map(n => n.dataset.k)"
        for room, key in (("switchboard", "did"), ("side_by_side", "changed")):
            page.evaluate("room => driver.go(room)", room)
            page.wait_for_selector(".lights [data-k]")
            assert page.evaluate(lit) == []
            page.locator(".see .hl").first.hover()
            found = page.evaluate(lit)
            assert found and all(key in words.split() for words in found)
            page.mouse.move(2, 2)
            assert not page.locator(".lights.lighting").count()


def boxes(page: Page) -> dict[str, list[float]]:
    found: dict[str, list[float]] = page.evaluate(
        """Object.fromEntries([...document.querySelectorAll('.pg .node')].map(n => {
            const r = [...n.querySelectorAll('rect.bx')].at(-1);
            return [n.dataset.node, [r.x.baseVal.value, r.y.baseVal.value]];
        }))"""
    )
    return found


@pytest.mark.exhaustive
def test_layers_are_opened_and_folded_and_nodes_stay_from_step_to_step(
    browser: Browser,
) -> None:
    session = Session(explorer.compile("zoo:small_mobilevit", until="planned"))
    with house_of(browser, session, width=1440) as page:
        page.locator(".pg [data-tab=operators]").click()
        group = page.locator(".pg .node.fold").first
        assert "×2" in (group.text_content() or "")
        before = boxes(page)
        key = group.get_attribute("data-node")
        top = before[str(key)][1]
        group.click()
        page.wait_for_selector(f'.pg .node.fold[data-node="{key}"][aria-expanded=true]')
        after = boxes(page)
        assert f"{key}.0" in after and f"{key}.1" in after
        above = {n: p for n, p in before.items() if p[1] <= top and not n.startswith(f"{key}.")}
        assert above and all(after[n] == p for n, p in above.items())
        page.keyboard.press("Enter")  # the focus stays on what was opened
        page.wait_for_selector(f'.pg .node.fold[data-node="{key}"][aria-expanded=false]')
        assert boxes(page) == before
        page.locator(".pg [data-tab=step]").click()
        page.wait_for_function("!document.querySelector('.pg .node.fold')")
        places: dict[str, list[float]] = {}
        for stage in ("TYPED", "LEGALIZED", "WELDED"):
            page.evaluate("name => driver.stage(name)", stage)
            settle(page)
            page.locator(".pg .scrolls").evaluate("box => { box.scrollTop = 0; }")
            settle(page)
            now = {
                text: place
                for text, place in page.evaluate(
                    """[...document.querySelectorAll('.pg .node')].map(n => [n.querySelector('text')
                    .textContent, n.querySelector('rect').y.baseVal.value])"""
                )
            }
            assert len(now) > 3
            for text, place in now.items():
                assert places.setdefault(text, place) == place
