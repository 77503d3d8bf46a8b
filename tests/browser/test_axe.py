"""axe-core finds nothing to object to in the house: names, roles, focus, contrast."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.widgets import made_by_hand as hand
from widgets.session.session import Session

pytest.importorskip("playwright", reason="BROWSER TESTS SKIPPED: playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

RULES = {
    "resultTypes": ["violations"],
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]},
}


@pytest.fixture
def house(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    from tests.browser.over_session import house

    width, scheme = request.param
    session = Session(hand.HandMade(), compare=hand.compare)
    session.measure()
    with house(browser, tmp_path, session, width=width, scheme=scheme) as page:
        page.wait_for_function("!document.querySelector('.house[aria-busy]')")
        yield page


def objections(page: Page) -> list[str]:
    """What it says, one line an element."""
    found: dict[str, Any] = axe.Axe().run(page, context="#room", options=RULES).response
    return [
        f"{v['id']}: {' '.join(n['target'])}: {n['failureSummary'].splitlines()[-1].strip()}"
        for v in found["violations"]
        for n in v["nodes"]
    ]


@pytest.mark.parametrize("house", [(1440, "light"), (1000, "dark")], indirect=True)
def test_axe_objects_to_nothing_in_any_stage(house: Page) -> None:
    said = {"as it opens": objections(house)}
    house.locator(".house").focus()
    house.keyboard.press("j")
    house.wait_for_timeout(300)
    for n in range(house.locator(".strip .stage").count()):
        stage = house.locator(".strip .stage").nth(n)
        stage.click()
        house.wait_for_timeout(300)
        said[f"stage {n}"] = objections(house)
        house.locator(".house").focus()
        house.keyboard.press("t")
        house.wait_for_timeout(200)
        said[f"table of stage {n}"] = objections(house)
        house.keyboard.press("t")
    house.keyboard.press("?")
    house.wait_for_timeout(200)
    said["keys"] = objections(house)
    lines = {line: where for where, found in reversed(said.items()) for line in found}
    assert not lines, "\n".join(f"{where}: {line}" for line, where in lines.items())
