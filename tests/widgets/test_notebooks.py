"""The notebooks run from top to bottom, from where a reader opens them, and leave pictures."""

import ast
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SECONDS = 0.05  # of each clock, for readers 0.3 to 1: what it says is no test
# a notebook, its sections, and the pictures that it leaves behind
ALL = [
    ("00_tour", 7, 5),
    ("01_relax", 7, 5),
    ("02_roller", 7, 3),
    ("03_welder", 7, 4),
    ("04_rammer", 6, 2),
    ("05_grinder", 6, 6),
    ("06_extending", 6, 2),
    ("07_training", 9, 4),
    ("08_cuda", 7, 2),
]


def read(name: str) -> nbformat.NotebookNode:
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


def test_every_notebook_is_here() -> None:
    assert sorted(p.stem for p in NOTEBOOKS.glob("*.ipynb")) == [name for name, _, _ in ALL]


def test_what_extends_the_compiler_takes_a_dozen_lines() -> None:
    cells = [cell.source for cell in read("06_extending").cells if cell.cell_type == "code"]
    found: dict[str, int] = {}
    for node in [n for source in cells for n in ast.parse(source).body]:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        name = getattr(node, "name", None) or ast.unparse(node).partition(" =")[0]
        found[name] = (node.end_lineno or first) - first + 1
    for parts in (
        ("squares",),
        ("RoundWeights",),
        ("worst_first",),
        ("body", "in_numpy", "squareplus"),
        ("SHEET",),
        ("MINE",),
    ):
        assert sum(found[part] for part in parts) <= 15, parts


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sections", "pictures"), ALL, ids=[name for name, _, _ in ALL])
def test_a_notebook_runs_from_top_to_bottom(
    name: str, sections: int, pictures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unanswered: nothing that an answer would show, and each exercise is not attempted."""
    monkeypatch.setenv("IRONWORKS_COURSE_LOG", "")
    notebook = read(name)
    for cell in notebook.cells:
        cell.source = re.sub(r"\bseconds=[\d.]+", f"seconds={SECONDS}", cell.source)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": NOTEBOOKS}}
    ).execute()
    told = [o for c in notebook.cells for o in c.get("outputs", ())]
    said = "".join(o.get("text", "") + o.get("data", {}).get("text/plain", "") for o in told)
    asked = "".join(c.source for c in notebook.cells if c.cell_type == "code")
    assert said.count("not attempted yet") == asked.count("course.check(")
    assert said.count("Predict first") == asked.count("course.reveal(")
    bundles = [
        output["data"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "application/vnd.jupyter.widget-view+json" in output.get("data", {})
        and not output["data"]["text/plain"].startswith("FigureWidget")  # a chart that grows
    ]
    assert len(bundles) == pictures
    for data in bundles:
        assert data["image/svg+xml"].startswith("<svg")
        assert data["text/plain"].count("\n") > 1


@pytest.mark.parametrize(("name", "sections", "pictures"), ALL, ids=[name for name, _, _ in ALL])
def test_a_notebook_is_kept_without_outputs(name: str, sections: int, pictures: int) -> None:
    notebook = read(name)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)


@pytest.mark.parametrize(("name", "sections", "pictures"), ALL, ids=[name for name, _, _ in ALL])
def test_each_section_has_an_idea_an_experiment_and_an_exercise(
    name: str, sections: int, pictures: int
) -> None:
    cells = read(name).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    found = [s for s in text.split("\n## ")[1:-1] if not s.startswith("Exercise: ")]
    assert len(found) == sections
    for section in found:
        for part in ("*Idea.*", "*Experiment.*", "*Exercise.*"):
            assert section.count(part) == 1, section[:40]
