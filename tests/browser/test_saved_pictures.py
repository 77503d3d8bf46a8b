"""What a room shows is saved as a file that stands alone: a drawing, points, or a table."""

import csv
import io
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.exhaustive import exhaustive
from tests.browser.over_session import enter, rooms
from tests.widgets import made_by_hand as hand
from widgets.draw import theme
from widgets.session.session import Session

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def session() -> Session:
    found = Session(hand.HandMade(), compare=hand.compare)
    found.measure()
    return found


def saved(page: Page, format: str) -> bytes:
    with page.expect_download() as found:
        page.locator("select[aria-label='Save what is shown']").select_option(format)
    assert found.value.suggested_filename.endswith(f".{format}")
    return Path(found.value.path()).read_bytes()


@pytest.mark.parametrize("scheme", ["dark", exhaustive("light")])
def test_a_drawing_is_saved_as_svg_png_and_csv(browser: Browser, scheme: str) -> None:
    session = Session(hand.HandMade(), compare=hand.compare)
    look = {"width": 1000, "scheme": scheme}
    with rooms(browser, session, ["groups", "layout"], "Rooms", **look) as page:
        enter(page, "Tune")
        drawing = saved(page, "svg").decode()
        assert drawing.startswith("<svg") and "var(--" not in drawing
        ground = theme.SCHEMES[scheme]["pane"]
        assert f'fill="{ground}"' in drawing.split("<text")[0]
        assert saved(page, "png").startswith(b"\x89PNG")
        rows = list(csv.reader(io.StringIO(saved(page, "csv").decode())))
        assert [row[0] for row in rows] == ["kernel", "conv", "fc", "softmax"]
        assert all(len(row) == len(rows[0]) for row in rows)
        page.locator(".room.live").focus()
        page.keyboard.press("t")
        page.wait_for_selector(".room table.tbl")
        offered = page.locator("select[aria-label='Save what is shown'] option")
        assert offered.all_text_contents() == ["Save", "CSV"]


@pytest.mark.parametrize("house", [(833, "dark"), exhaustive((1280, "light"))], indirect=True)
def test_a_wall_is_saved_as_png_and_csv_and_a_chart_in_any_way(house: Page) -> None:
    house.evaluate("driver.stage('RAMMED')")
    offered = house.locator("select[aria-label='Save what is shown'] option")
    films = ["WebM, every step", "PNG, every step"]
    assert offered.all_text_contents() == ["Save", "PNG", "SVG", "CSV", *films]
    assert saved(house, "png").startswith(b"\x89PNG") and b"<svg" in saved(house, "svg")[:200]
    rows = list(csv.reader(io.StringIO(saved(house, "csv").decode())))
    assert len(rows) > 1 and all(len(row) == len(rows[0]) for row in rows)
    house.evaluate("driver.go('policies')")
    house.wait_for_selector(".picture .drawn svg.sized")
    assert saved(house, "png").startswith(b"\x89PNG") and b"<svg" in saved(house, "svg")[:200]
    assert "wavefront" in saved(house, "csv").decode()
