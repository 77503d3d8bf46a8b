"""A picture is added as a record, `PICTURE`, at the end of the file that draws it, and as one line
of `widgets.rooms.gallery.PICTURES`.
"""

import pytest
from playwright.sync_api import Browser

import explorer
import widgets
from explorer.errors import SnapshotError
from explorer.ir.stage import Stage
from tests.browser.over_session import house
from widgets.draw.svg import Svg, label
from widgets.draw.table import Table
from widgets.model.picture import Drawn, OnShow, Picture
from widgets.page.report import document, page
from widgets.rooms import gallery
from widgets.session import state
from widgets.session.session import Session

MODEL = "tests/data/tiny_skip.onnx"


def names(s: OnShow, op: str) -> Drawn:
    """The operators by name."""
    rows = tuple(o.name for o in s.house.operators)
    marks = "".join(label(12, 20 + 16 * n, name, "i") for n, name in enumerate(rows))
    table = Table(("operator",), tuple((n,) for n in rows), tuple((n,) for n in rows), "Names")
    return rows, Svg(780, 24 + 16 * len(rows), marks, "Names"), table


MINE = Picture(
    name="names",
    title="All names",
    words="Every operator of the source by its name.",
    stage=Stage.TASKED,
    draw=names,
)


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "PICTURES", (*gallery.PICTURES, MINE))


@pytest.fixture
def session() -> Session:
    return Session(explorer.compile(MODEL))


def test_it_is_asked_for_shown_alone_and_kept_in_a_link(session: Session) -> None:
    known = [o.name for o in session.house.operators]
    found = session.answer("picture", {"room": "names", "op": 0})
    assert known[0] in found["svg"] and "controls" not in found
    assert widgets.data(session.now.compiled, "names") == tuple(known)
    assert "All names" in widgets.show(session.now.compiled, "names").html
    assert state.parse_state('{"ironworks": 1, "room": "names", "stage": "TASKED"}').room == "names"
    with pytest.raises(SnapshotError, match="room"):
        state.parse_state('{"ironworks": 1, "room": "nothing"}')


@pytest.mark.exhaustive
def test_the_report_has_it(session: Session) -> None:
    session.measure()
    text = page(session)
    assert "<b>All names</b>" in text and MINE.words in text
    held = document(session)
    assert "picture|0|names" in held["answers"]
    assert "names" in [told["name"] for told in held["parts"]["pictures"]]


@pytest.mark.exhaustive
@pytest.mark.browser
def test_the_house_has_its_tab(browser: Browser, session: Session) -> None:
    with house(browser, session) as found:
        found.locator("#room .stage[data-stage=TASKED]").click()
        tab = found.locator("#room .pw [role=tab]", has_text="All names")
        assert tab.get_attribute("title") == MINE.words
        tab.click()
        found.wait_for_selector("#room .picture svg.pic[aria-label=Names], #room .picture svg.pic")
        assert session.house.operators[0].name in found.inner_html("#room .picture")
