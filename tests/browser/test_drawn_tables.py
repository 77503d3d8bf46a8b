"""A table as a drawing, which stands for a chart where no script runs: nothing of it is cut."""

import pytest
from playwright.sync_api import Browser

from widgets.draw.table import WIDTH, Table, draw_table

pytestmark = pytest.mark.browser
CAPTION = (
    "3 kernels on 2 cores of this-cpu: floor 15.9 µs (default figures), predicted 38.7 µs, none "
    "measured yet; most above its floor: cell:8 matmul.2, 2.2 times as long"
)
CHANGE = "another number of programs: 1 program, 3 before"


def test_the_caption_and_the_last_column_are_written_in_full(browser: Browser) -> None:
    drawn = draw_table(Table(("seq", "plan changes"), ((1, ""), (2, CHANGE)), caption=CAPTION))
    page = browser.new_page(viewport={"width": 1000, "height": 400})
    page.set_content(f"<body style='margin:0'>{drawn.text('light')}")
    texts = page.locator("svg text")
    page.evaluate("document.querySelectorAll('title').forEach(told => told.remove())")
    said = texts.all_text_contents()
    assert CAPTION in " ".join(said) and CHANGE in said
    ends = texts.evaluate_all("all => all.map(n => n.getBoundingClientRect().right)")
    assert max(ends) <= WIDTH
    page.close()
