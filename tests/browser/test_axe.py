"""axe-core objects to nothing in the house and in a report: names, roles, focus, contrast."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import explorer
from tests.browser import by_hand
from tests.browser.driver import Tab
from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import settle
from tests.frontends.models import DATA
from widgets.page.report import page as report
from widgets.session.session import Session

pytest.importorskip("playwright", reason="BROWSER TESTS SKIPPED: playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")

pytestmark = pytest.mark.browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

RULES = {
    "resultTypes": ["violations"],
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]},
}


@pytest.fixture(scope="module")
def session() -> Session:
    found = Session(explorer.compile(DATA / "tiny_bert.onnx"))
    found.run_once()
    return found


def objections(page: Page, where: str = "#room") -> list[str]:
    """What it says, one line an element."""
    if not page.evaluate("'axe' in window"):  # to read the script takes as long as to run it
        page.evaluate(axe.Axe().axe_script)
    found: dict[str, Any] = page.evaluate("given => axe.run(...given)", [where, RULES])
    return [
        f"{v['id']}: {' '.join(n['target'])}: {n['failureSummary'].splitlines()[-1].strip()}"
        for v in found["violations"]
        for n in v["nodes"]
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize("house", [(1440, "light"), exhaustive((1000, "dark"))], indirect=True)
def test_axe_objects_to_nothing_in_any_stage(house: Page) -> None:
    said = {"as it opens": objections(house)}
    house.locator(".house").focus()
    house.keyboard.press("j")
    settle(house)
    for n in range(house.locator(".rail .stage").count()):
        stage = house.locator(".rail .stage").nth(n)
        stage.click()
        settle(house)
        said[f"stage {n}"] = objections(house)
        house.locator(".house").focus()
        house.keyboard.press("t")
        settle(house)
        said[f"table of stage {n}"] = objections(house, "#room .pw")  # all else is as before
        house.keyboard.press("t")
    house.keyboard.press("?")
    settle(house)
    said["keys"] = objections(house)
    lines = {line: where for where, found in reversed(said.items()) for line in found}
    assert not lines, "\n".join(f"{where}: {line}" for line, where in lines.items())


@pytest.mark.parametrize(
    ("model", "scheme"),
    [("by hand", "light"), exhaustive("tiny_bert", "light"), exhaustive("tiny_bert", "dark")],
)
def test_axe_objects_to_nothing_in_a_report(
    browser: Browser, tmp_path: Path, request: pytest.FixtureRequest, model: str, scheme: str
) -> None:
    path = tmp_path / "report.html"
    by_model = {
        "by hand": lambda: by_hand.saved_page(measured=True),
        "tiny_bert": lambda: report(request.getfixturevalue("session")),
    }
    path.write_text(by_model[model](), encoding="utf-8")
    tab = Tab(browser, 1280, 900, scheme)
    tab.page.goto(path.as_uri())
    tab.page.wait_for_selector(".house")
    tab.page.wait_for_timeout(500)
    found = objections(tab.page, "html")
    assert not found, "\n".join(found)
    assert not tab.faults and not tab.outside
    tab.close()


@pytest.mark.exhaustive
@pytest.mark.parametrize("house", [(1000, "dark"), exhaustive((1440, "light"))], indirect=True)
def test_axe_objects_to_nothing_in_the_rooms_of_code(house: Page) -> None:
    house.evaluate("driver.select(content.parts.operators.findIndex(o => o[4].length))")
    house.evaluate("driver.stage('EMITTED')")
    house.evaluate("driver.go('flow')")
    house.locator(".picture .block").first.click()
    house.wait_for_selector(".picture .block.own")
    said = {"flow": objections(house)}
    house.evaluate("driver.go('lines')")
    house.wait_for_selector(".linked .ln.at")
    said["lines"] = objections(house)
    house.locator(".linked .ch button", has_text="Edit").click()
    house.wait_for_selector(".linked textarea")
    said["editor"] = objections(house)
    assert not any(said.values()), said
