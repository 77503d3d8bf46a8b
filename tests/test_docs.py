"""The pages of `docs/`: each does what it says, and the index names each."""

from __future__ import annotations

import json
import re
import runpy
import sys
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

from explorer.course.exercises import EXERCISES
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS
from explorer.ops import user_operators
from explorer.passes import policy_call, registry
from explorer.rammer.model import Facts, Share
from tests.course.answers import WRONG
from widgets.model import glossary
from widgets.rooms import gallery

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "how_to").glob("*.md"))
UNSAID = {"program", "connections"}  # rooms of no word of their own


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_a_page_does_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a file, as a cell is: functions are traced by their text. Nothing of it stays."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.S)
    assert len(blocks) == 1 and "assert " in blocks[0]
    file = tmp_path / f"{page.stem}_page.py"
    file.write_text(blocks[0])
    operators = set(user_operators.user_operators())
    module = ModuleType(f"{page.stem}_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look there
    try:
        exec(compile(blocks[0], str(file), "exec"), module.__dict__)
        assert not [r.name for r in registry.passes().values() if r.after]
        assert not policy_call.all_policies()
    finally:
        for name in user_operators.user_operators().keys() - operators:
            user_operators.forget(name)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_cluster_sweeps_as_its_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "scale.md").read_text("utf-8"), re.S)
    exec(compile(block, "scale.md", "exec"), {"__name__": "__main__"})
    assert (tmp_path / "rows.sqlite").stat().st_size > 0


def test_every_page_is_in_the_index_and_in_the_site() -> None:
    index = (DOCS / "index.md").read_text("utf-8")
    site = (ROOT / "mkdocs.yml").read_text("utf-8")
    for page in PAGES:
        assert f"how_to/{page.name}" in index and f"how_to/{page.name}" in site
    made = {f"course/{name}.md" for name in runpy.run_path(str(DOCS / "course.py"))["pages"]()}
    written = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert set(re.findall(r"\]\(([^)]+\.md)\)", index)) <= made | written | {"glossary.md"}
    assert set(re.findall(r": (\S+\.md)$", site, re.M)) == made | written | {"glossary.md"}


def test_a_word_of_the_glossary_is_there_once_and_seen_where_it_says() -> None:
    words = [word.name.lower() for word in glossary.words()]
    assert not [word for word in words if "," in word]  # each is told alone, on hover
    assert len(words) == len(set(words)) == len(glossary.meanings()) > 60
    assert all(word.means.endswith(".") for word in glossary.words())
    seen = {name for w in glossary.words() for name in re.findall(r"^`(\w+)`$", w.seen)}
    assert seen == {p.name for p in gallery.PICTURES} - UNSAID
    assert "widgets/model/glossary.md" in (ROOT / "README.md").read_text("utf-8")


def test_the_site_has_every_cell_of_every_chapter() -> None:
    made = runpy.run_path(str(DOCS / "course.py"))["pages"]()
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        page = made[notebook.stem]
        assert page.startswith("# ")
        for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
            is_room = cell["metadata"].get("ironworks", {}).get("role") == "text"
            source = "".join(cell["source"]).replace("](../docs/", "](../")  # a page of the site
            assert is_room or source in page


def test_a_page_has_what_a_cell_gave_without_its_kernel() -> None:
    """A picture, a chart and words, each in HTML that no empty line breaks."""
    chart = {"data": [{"name": "times", "x": [1, 2], "y": [3.5, 4.5]}], "layout": {}}
    pictured = {
        "application/vnd.jupyter.widget-view+json": {"model_id": "1"},
        "image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg'/>",
        "text/plain": "a <wall>\nunit  us\n\nanother table\n\n\nand one",
    }
    slider = {
        "application/vnd.jupyter.widget-view+json": {"model_id": "2"},
        "text/plain": "IntSlider(value=1)",
    }
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["one\n", "\n", "two < three\n"]},
        {"output_type": "display_data", "data": pictured, "metadata": {}},
        {"output_type": "display_data", "data": {"application/vnd.plotly.v1+json": chart}},
        {"output_type": "display_data", "data": slider},
    ]
    cell = {"cell_type": "code", "source": "run()", "outputs": outputs}
    head = {"cell_type": "markdown", "source": "# A chapter"}
    recorded = {"recorded": {"machine": "a machine", "day": "2026-01-01"}}
    made = runpy.run_path(str(DOCS / "course.py"))["chapter"]
    page = made({"cells": [head, cell], "metadata": recorded}, "00_tour.ipynb")
    assert "was recorded, on a machine, 2026-01-01" in page
    assert '<pre class="said">one\n&#10;two &lt; three</pre>' in page
    (picture, drawn) = re.findall(r"<figure.*?</figure>", page, re.S)
    assert 'alt="a &lt;wall&gt;"' in picture and "\n\n" not in picture + drawn
    assert "<summary>Table</summary>" in picture and "another table" in picture
    assert '"y": [3.5, 4.5]' in drawn and "times\n  1  3.5\n  2  4.5" in drawn
    assert page.count("plotly.min.js") == 1 and "IntSlider" not in page


def test_the_api_page_names_what_there_is() -> None:
    import explorer
    from explorer import course

    text = (DOCS / "api.md").read_text("utf-8")
    for room, part in (
        (explorer, text.split("::: explorer\n")[1]),
        (course, text.split(".course")[1]),
    ):
        members = re.findall(r"^        - (\w+)$", part.partition(":::")[0], re.M)
        assert members and all(hasattr(room, name) for name in members)


def test_the_pages_name_all_scalar_functions_and_all_fields_of_decisions() -> None:
    operator = (DOCS / "how_to" / "operator.md").read_text("utf-8")
    internal = {"lands"}  # of a scatter
    assert not [
        n for n in SCALAR_FUNCTIONS.keys() - internal if not re.search(rf"`{n}\b", operator)
    ]
    policy = (DOCS / "how_to" / "policy.md").read_text("utf-8")
    for kind in (Tiling, Share, Facts, Candidate):
        missing = [f.name for f in fields(kind) if f"`{f.name}`" not in policy]
        assert missing in ([], ["why"]), kind  # a refusal as values, for pictures


PLANS = sorted((DOCS / "teaching").glob("plan_*_weeks.md"))

# A wrong answer whose message depends on the drawn values: that of the guide's seed.
BY_OTHER_VALUES = {
    ("own_pass", "factors the other way"): "100% of the work are left",
    ("measuring", "two intervals that overlap"): "of 200 times it said",
}


def table(page: Path) -> list[list[str]]:
    """The rows of a page's tables without their heads."""
    lines = [line for line in page.read_text("utf-8").splitlines() if line.startswith("| ")]
    cells = [[c.strip() for c in re.split(r"(?<!\\\\)\|", line)[1:-1]] for line in lines]
    return cells[1:]


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.stem)
def test_a_plan_has_a_week_for_each_row_with_what_its_chapter_has(plan: Path) -> None:
    """The large exercise is the chapter's, and a paper is one that its notebook names."""
    guide = {row[0]: row[2] for row in table(ROOT / "notebooks" / "TEACHING.md")}
    weeks = table(plan)
    count = int(plan.stem.split("_")[1])
    assert [row[0] for row in weeks] == [str(n) for n in range(1, count + 1)]
    for _, chapter, exercise, reading, hand_in in weeks:
        if chapter.startswith("one of"):
            continue
        assert exercise == guide[chapter] and hand_in.startswith(chapter)
        words = (ROOT / "notebooks" / f"{chapter}.ipynb").read_text("utf-8")
        for author, year in re.findall(r"(\w+) (?:et al\.|and \w+) (\d{4})", reading):
            assert re.search(rf"{author}\b.{{0,200}}{year}", words), (chapter, author, year)
    if count == 14:
        assert {row[1] for row in weeks} == guide.keys()


def test_large_exercises_take_as_long_as_the_plans_say() -> None:
    assert {e.minutes for e in EXERCISES.values() if not e.is_warm_up} == {60}
    assert all("about 60 minutes for the large exercise" in p.read_text("utf-8") for p in PLANS)


def test_the_guide_for_assistants_has_each_wrong_answer_with_its_message() -> None:
    """The messages are those by which the tests of the course know the same wrong answers."""
    rows = table(DOCS / "teaching" / "assistant_guide.md")
    large = [e for e in EXERCISES.values() if not e.is_warm_up]
    assert len(rows) == sum(len(WRONG[e.name]) for e in large)
    for e in large:
        own = [row for row in rows if row[0] == e.chapter]
        assert len(own) == len(WRONG[e.name]) >= 3
        for (_, does, message, points), (what, (_, why)) in zip(own, WRONG[e.name].items()):
            plain = re.sub(r"\\([\[\]*|])", r"\1", message)
            why = BY_OTHER_VALUES.get((e.name, what), why)
            assert does and re.search(why, plain), (e.name, what)
            assert int(points.split(" of ")[0]) < int(points.split(" of ")[1]) == e.points


def test_the_statement_on_accessibility_names_tests_that_exist() -> None:
    text = (DOCS / "accessibility.md").read_text("utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) >= 12
    for file, function in named:
        assert f"def {function}(" in (ROOT / file).read_text("utf-8"), function
