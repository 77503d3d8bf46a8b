"""The geometry that rooms are held against finds what it is for, and nothing where all is well."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

CLIPPED = (Path(__file__).parent / "clipped.js").read_text("utf-8").split("\n", 1)[1]
PLANTED = {
    "cut at the side": '<p style="width:40px;overflow:hidden;white-space:nowrap">a long text</p>',
    "cut above or below": '<div style="height:8px;overflow:hidden">a<br>text</div>',
    "out of its drawing": '<svg width="60" height="20"><text x="30" y="14">a long one</text></svg>',
    "over each other": '<svg width="90" height="20"><text x="2" y="14">one text</text>'
    '<text x="20" y="15">another</text></svg>',
    "cut in its list": '<select style="width:50px"><option>a long option</option></select>',
    "cut in its field": '<input style="width:30px" value="a long value">',
    "overlap in bar": '<div class="bar" style="display:flex"><b>one</b>'
    '<i style="margin-left:-15px">two</i></div>',
    "wider than its box": '<svg width="90" height="20"><g class="node">'
    '<rect class="bx" width="30" height="18"/><text x="2" y="14">a long text</text></g></svg>',
    "under the buttons of a chart": '<div class="chart" style="position:relative;width:90px">'
    '<span>words</span><div class="modebar" style="position:absolute;top:0;left:0;width:90px">'
    '<div class="modebar-group" style="height:18px"></div></div></div>',
}
WELL = (
    '<div style="width:40px;overflow:auto;white-space:nowrap">a long text</div>',
    '<p title="all" style="width:40px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap">'
    "<span>a long text</span></p>",
    '<svg width="90" height="40"><text x="2" y="14">one</text><text x="2" y="28">two</text></svg>',
    '<select style="width:50px" title="a long option"><option>a long option</option></select>',
    '<div style="visibility:hidden;width:9px;overflow:hidden">a long text</div>',
)


def found(browser: Browser, inside: str) -> list[str]:
    page = browser.new_page(viewport={"width": 400, "height": 300})
    try:
        page.set_content(f'<div class="house" style="font:12px sans-serif">{inside}</div>')
        said: list[str] = page.evaluate(CLIPPED)
        return said
    finally:
        page.close()


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(browser: Browser, fault: str) -> None:
    assert any(said.startswith(fault) for said in found(browser, PLANTED[fault]))


def test_what_scrolls_or_is_told_on_hover_is_no_fault(browser: Browser) -> None:
    assert found(browser, "".join(WELL)) == []
