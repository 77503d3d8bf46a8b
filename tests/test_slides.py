"""Slides: every chapter has them, nothing comes from outside, and every text fits its page."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from explorer.course.assignment import cells
from explorer.course.exercise import Check, Exercise
from explorer.course.exercises import EXERCISES

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[1]
MADE = runpy.run_path(str(ROOT / "docs/slides.py"))
RECORDED = ROOT / "build/course"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NAMES = [path.stem for path in NOTEBOOKS]
TALL = (
    '<svg xmlns="http://www.w3.org/2000/svg" class="pic" viewBox="0 0 1000 1200" width="1000" '
    "height=\"1200\"><style>text{fill:#465059}</style><rect width='100%' height='100%' "
    'fill=\'#ffffff\'/><g transform="translate(0 0)"><rect width="9" height="9" fill="#5d99d7"/>'
    '<path d="M0 0"/><text>first</text></g><g transform="translate(0 600)"><rect width="9" '
    'height="9"/><path d="M0 0"/><text>second</text></g></svg>'
)


def notebook(name: str) -> dict[str, Any]:
    """A chapter as it is now, with the outputs of its recording if there is one of it."""
    now: dict[str, Any] = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text("utf-8"))
    recorded = RECORDED / f"{name}.ipynb"
    if not recorded.exists():
        return now
    ran: dict[str, Any] = json.loads(recorded.read_text("utf-8"))
    same = [text(c) for c in ran["cells"]] == [text(c) for c in now["cells"]]
    return ran if same else now


def text(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def deck(name: str) -> list[Any]:
    made: list[Any] = MADE["slides"](notebook(name), name, MADE["read_guide"](name))
    return made


def warm_up() -> Exercise:
    """A small exercise of the longest kind that a slide shows."""
    return Exercise(
        name="small",
        chapter="06_schedules",
        title="How many bytes a tile moves",
        goal="Fill in the blanks of `bytes_of(tile)`, so that it returns the bytes of a tile. " * 3,
        answer="bytes_of",
        stub="import math\n\n\ndef bytes_of(tile):\n"
        + "".join(f"    part_{n} = ...\n" for n in range(15)),
        solution="def bytes_of(tile):\n    return 4\n",
        hints=("Count.",),
        checks=(Check("bytes", 1, lambda answer, seed: None),),
        activity="fill in",
        minutes=5,
    )


@pytest.fixture(scope="module")
def short() -> dict[str, Any]:
    """A chapter of one section: a stack of pictures, a revealed prediction, a small exercise."""
    predict = 'n = course.predict(\n    "How many?",\n    ...,  # your answer here\n)'
    data = {"image/svg+xml": TALL, "text/plain": "a <wall>\nrows"}
    picture = {"output_type": "display_data", "data": data, "metadata": {}}
    said = {
        "output_type": "stream",
        "name": "stdout",
        "text": "Predict first: How many?\n12 rows\n",
    }
    words = {"cell_type": "markdown", "id": "w", "metadata": {}}
    code = {"cell_type": "code", "metadata": {}, "outputs": []}
    moment = {"ironworks": {"role": "moment"}}
    return {
        "metadata": {"answers": {"How many?": "12"}, "recorded": {"machine": "m", "day": "d"}},
        "cells": [
            {**words, "source": "# 6. Short\n\nAbout it.\n\n**After this class you can** read."},
            {**words, "source": "## 1. A section\n\n*Idea.* One is one.\n\n*Run.* Show `it`."},
            {**code, "source": "show()", "outputs": [picture], "metadata": moment},
            {**words, "source": "*Predict.* There is one."},
            {**code, "source": predict},
            {**code, "source": "course.reveal(n, lambda: 12);", "outputs": [said]},
            {**words, "source": "*Investigate.* Why?\n\n*Modify.* Do."},
            {**words, "source": "*Your answer:*", "metadata": {"ironworks": {"role": "text"}}},
            *cells(warm_up(), "student"),
            *cells(EXERCISES["wall"], "student"),
        ],
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_chapter_has_each_part_as_slides_in_its_order(name: str) -> None:
    slides = deck(name)
    kinds = [s.kind for s in slides]
    words = "\n".join(text(c) for c in notebook(name)["cells"] if c["cell_type"] == "markdown")
    assert kinds[0] == "title" and kinds[-1] == "exit" and slides[-1].body
    titles = re.findall(r"^## (\d+\. .*)$", words, re.M)
    assert titles == list(dict.fromkeys(s.section for s in slides if s.section in titles))
    for part in ("Idea", "Investigate", "Modify"):
        assert kinds.count(part.lower()) - (part == "Idea") == words.count(f"*{part}.*"), part
    assert kinds.count("exercise") == 1 and kinds.count("live") == 1
    answers = [n for n, kind in enumerate(kinds) if kind == "answer"]
    asked = {s.question for s in slides if s.kind == "predict"}
    assert asked and asked == {slides[n].question for n in answers}
    assert all(slides[n - 1].question == slides[n].question for n in answers)
    assert "Your answer:" not in "".join(s.body for s in slides)


def test_an_answer_is_on_the_slide_after_its_question(short: dict[str, Any]) -> None:
    slides = MADE["slides"](short, "06_schedules", MADE["read_guide"]("06_schedules"))
    kinds = [s.kind for s in slides]
    assert kinds == [
        *("title", "idea", "idea", "run", "picture", "picture"),
        *("predict", "answer", "investigate", "modify", "try", "exercise", "live", "exit"),
    ]
    at = kinds.index("answer")
    assert ">12</p>" in slides[at].body and "12 rows" in slides[at].body
    assert not [s for s in slides[:at] if "12 rows" in s.body or ">12<" in s.body]
    assert "Predict first" not in "".join(s.body for s in slides)
    small = slides[kinds.index("try")].body
    assert "part_14 = ..." in small and "import math" not in small


def test_a_stack_is_a_slide_for_each_drawing_in_the_colours_of_the_scheme(
    short: dict[str, Any],
) -> None:
    panels = list(MADE["_panels"](TALL))
    assert [("first" in p, "second" in p) for p in panels] == [(True, False), (False, True)]
    assert 'viewBox="0 600 1000 600"' in panels[1]
    themed = MADE["_themed"](panels[0])
    assert 'fill="var(--f-conv)"' in themed and "prefers-color-scheme:dark" in themed


def test_notes_have_the_minutes_and_the_mistakes_of_the_guide() -> None:
    slides = deck("06_schedules")
    notes = {s.kind: "\n".join(s.notes) for s in slides}
    assert "Students can then place tasks on cores" in notes["title"]
    assert "5 minutes for the prediction" in notes["predict"]
    assert "Common mistakes: tasks are dealt in turn" in notes["exercise"]
    assert "5 minutes for the exit question" in notes["exit"]


REVEAL = pytest.mark.skipif(
    not (ROOT / "build/reveal/reveal.js").exists(),
    reason="TESTS OF SLIDES SKIPPED: python docs/reveal.py build/reveal fetches reveal.js",
)
OVER = """() => {
  const slide = deck.getCurrentSlide(), over = [];
  const body = slide.querySelector(".body");
  if (body.scrollHeight > body.clientHeight + 1 || body.scrollWidth > body.clientWidth + 1)
    over.push(`the body: ${body.scrollHeight} of ${body.clientHeight} px`);
  for (const node of slide.querySelectorAll("h2, .body, .body *, footer, .label")) {
    const r = node.getBoundingClientRect();
    if (node.closest("svg, .plotly") || !r.width) continue;
    if (r.right > 1281 || r.bottom > 721 || r.left < -1 || r.top < -1)
      over.push(`${node.tagName} ${[r.left, r.top, r.right, r.bottom].map(Math.round)}`);
  }
  const size = parseFloat(getComputedStyle(body).fontSize);
  if (size < 18) over.push(`words of ${size} px`);
  return over;
}"""


def write(folder: Path, name: str, made: dict[str, Any]) -> Path:
    """Write the slides of a notebook beside the script that draws charts."""
    from plotly.offline import get_plotlyjs

    source = folder / f"{name}.ipynb"
    source.write_text(json.dumps(made), encoding="utf-8")
    file = folder / "slides" / f"{name}.html"
    MADE["write_slides"](source, file)
    (folder / "course").mkdir(exist_ok=True)
    (folder / "course/plotly.min.js").write_text(get_plotlyjs(), encoding="utf-8")
    return file


@REVEAL
@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.few(3)
@pytest.mark.parametrize("name", ["", *NAMES])
def test_every_slide_fits_its_page_and_asks_nothing_of_a_network(
    name: str, browser: Browser, tmp_path: Path, short: dict[str, Any]
) -> None:
    """At 1280 × 720, by the keys of a speaker."""
    from tests.browser.driver import Tab

    file = write(tmp_path, name or "06_schedules", notebook(name) if name else short)
    tab = Tab(browser, 1280, 720)
    try:
        tab.page.goto(file.as_uri())
        tab.page.wait_for_function("window.deck?.isReady()")
        count = tab.page.evaluate("deck.getTotalSlides()")
        found = {}
        for number in range(count):
            assert tab.page.evaluate("deck.getIndices().h") == number
            found[number] = tab.page.evaluate(OVER)
            tab.page.keyboard.press("ArrowRight")
        assert count > 10 and {n: over for n, over in found.items() if over} == {}
        assert not tab.faults and not tab.outside
    finally:
        tab.close()


@REVEAL
@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_objects_to_nothing_on_any_kind_of_slide(
    scheme: str, browser: Browser, tmp_path: Path, short: dict[str, Any]
) -> None:
    pytest.importorskip("axe_playwright_python.sync_playwright")
    from tests.browser.driver import Tab
    from tests.browser.test_axe import objections

    tab = Tab(browser, 1280, 720, scheme)
    try:
        tab.page.goto(write(tmp_path, "06_schedules", short).as_uri())
        tab.page.wait_for_function("window.deck?.isReady()")
        said = {}
        for number in range(tab.page.evaluate("deck.getTotalSlides()")):
            tab.page.evaluate(f"deck.slide({number})")
            said[number] = objections(tab.page, "section.present")
        assert {n: lines for n, lines in said.items() if lines} == {}
    finally:
        tab.close()


@REVEAL
def test_a_file_of_slides_has_no_address_to_load_from(
    tmp_path: Path, short: dict[str, Any]
) -> None:
    html = write(tmp_path, "06_schedules", short).read_text("utf-8")
    assert not re.search(r"""(?:src|href)=["']?https?:|@import|url\(["']?https?:""", html)
    assert '<a href="../course/06_schedules.html#in-this-browser">' in html
    assert "MIT" in html  # reveal.js is there with its licence


def test_the_site_lists_the_slides_of_each_chapter() -> None:
    page = runpy.run_path(str(ROOT / "docs/course.py"))["pages"]()["slides"]
    assert page.count("\n- ") == len(NAMES) and "`S` opens the speaker's notes" in page
    assert "course/slides.md" in (ROOT / "mkdocs.yml").read_text("utf-8")
