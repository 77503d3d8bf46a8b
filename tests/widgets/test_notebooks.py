"""The notebooks run from top to bottom, from where a reader opens them, and leave pictures.

`make test` runs each with smaller models and counts, `make test-all` also as it is.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from jupyter_client.provisioning import local_provisioner
from nbclient import NotebookClient

from explorer.course.exercises import EXERCISES
from tests.widgets.fork_server import ForkServer
from tests.widgets.predictions import insert_answers, leaks

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SECONDS = 0.05  # of each clock, for readers 0.3 to 1: what it says is no test
# a notebook, its sections, and the pictures that it leaves behind
ALL = [
    ("00_tour", 6, 4),
    ("01_graphs", 4, 3),
    ("02_rewriting", 5, 3),
    ("03_fusion", 8, 4),
    ("04_tiles", 6, 3),
    ("05_cost_models", 7, 2),
    ("06_schedules", 6, 3),
    ("07_code_generation", 7, 6),
    ("08_measuring", 5, 1),
    ("09_control_flow", 6, 6),
    ("10_dynamic_shapes", 6, 6),
    ("10b_decode", 4, 2),
    ("11_training", 9, 4),
    ("12_capstone", 5, 2),
]
CONTROLS = ("FigureWidget", "IntSlider")  # a chart that grows, and a widget of the reader's own
NAMES = [name for name, _, _ in ALL]
SMALLER = {
    "00_tour": (("zoo:squeezenet", "zoo:tiny_resnet18"),),
    "07_code_generation": (("range(3)", "range(1)"),),
    "08_measuring": (("zoo:squeezenet", "zoo:tiny_resnet18"),),
    "10b_decode": (("manual_model()", "manual_model(steps=200)"),),
    "11_training": (
        ("epochs=40", "epochs=12"),
        ("64)] * 12", "64)] * 4"),
        ("range(8)", "range(2)"),
    ),
}


def read(name: str) -> nbformat.NotebookNode:
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


def words(name: str) -> str:
    return "\n".join(c.source for c in read(name).cells if c.cell_type == "markdown")


def test_every_notebook_is_here() -> None:
    assert sorted(p.stem for p in NOTEBOOKS.glob("*.ipynb")) == NAMES


def test_what_extends_the_compiler_takes_a_dozen_lines() -> None:
    chapters = ("02_rewriting", "07_code_generation", "12_capstone")
    cells = [c.source for name in chapters for c in read(name).cells if c.cell_type == "code"]
    found: dict[str, int] = {}
    for node in [n for source in cells for n in ast.parse(source).body]:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        name = getattr(node, "name", None) or ast.unparse(node).partition(" =")[0]
        found.setdefault(name, (node.end_lineno or first) - first + 1)
    for parts in (
        ("squares",),
        ("one_relu",),
        ("RoundWeights",),
        ("worst_first",),
        ("body", "in_numpy", "squareplus"),
        ("SHEET",),
        ("MINE",),
    ):
        assert sum(found[part] for part in parts) <= 15, parts


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    found = ForkServer()
    yield found
    found.close()


@pytest.mark.slow
@pytest.mark.parametrize("size", ["smaller", pytest.param("full", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(("name", "sections", "pictures"), ALL, ids=NAMES)
def test_a_notebook_runs_from_top_to_bottom(
    name: str,
    sections: int,
    pictures: int,
    size: str,
    fork_server: ForkServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unanswered: nothing shows an answer before it is revealed, and no exercise is attempted."""
    monkeypatch.setenv("IRONWORKS_COURSE_LOG", "")
    monkeypatch.setattr(local_provisioner, "launch_kernel", fork_server.kernel)
    notebook = read(name)
    for long, short in SMALLER.get(name, ()) if size == "smaller" else ():
        assert any(long in cell.source for cell in notebook.cells), f"{name} has no {long!r}"
        for cell in notebook.cells:
            cell.source = cell.source.replace(long, short)
    for cell in notebook.cells:
        cell.source = re.sub(r"\bseconds=[\d.]+", f"seconds={SECONDS}", cell.source)
    asked = "".join(c.source for c in notebook.cells if c.cell_type == "code")
    insert_answers(notebook)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": NOTEBOOKS}}
    ).execute()
    told = [o for c in notebook.cells for o in c.get("outputs", ())]
    said = "".join(o.get("text", "") + o.get("data", {}).get("text/plain", "") for o in told)
    assert leaks(notebook) == []
    faults = sum(e.chapter == name and e.activity == "find the fault" for e in EXERCISES.values())
    assert said.count("not attempted yet") == asked.count("course.check(") - faults
    assert said.count("Predict first") == asked.count("course.reveal(")
    bundles = [
        output["data"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "application/vnd.jupyter.widget-view+json" in output.get("data", {})
        and not output["data"]["text/plain"].startswith(CONTROLS)
    ]
    assert len(bundles) == pictures
    for data in bundles:
        assert data["image/svg+xml"].startswith("<svg")
        assert data["text/plain"].count("\n") > 1


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_kept_without_outputs(name: str) -> None:
    notebook = read(name)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)


@pytest.mark.parametrize(("name", "sections", "pictures"), ALL, ids=NAMES)
def test_each_section_has_an_idea_a_run_and_something_to_do(
    name: str, sections: int, pictures: int
) -> None:
    found = [s for s in words(name).split("\n## ")[1:-1] if not s.startswith("Exercise: ")]
    assert len(found) == sections
    for n, section in enumerate(found, 1):
        assert section.startswith(f"{n}. ")
        assert section.count("*Idea.*") == section.count("*Run.*") == 1, section[:40]
        assert len(re.findall(r"\*(Investigate|Modify)\.\*", section)) == 1, section[:40]


@pytest.mark.parametrize("name", NAMES)
def test_each_chapter_goes_from_a_prediction_to_something_made(name: str) -> None:
    """Predict, run, investigate, modify, make; one main picture; and a question at the end."""
    text = words(name)
    parts = ("After this class you can", "*Predict.*", "*Investigate.*", "*Modify.*")
    assert all(part in text for part in parts), [p for p in parts if p not in text]
    number = name.partition("_")[0]
    assert text.startswith(f"# {number.removeprefix('0')}. ")
    cells = read(name).cells
    roles = [c.metadata.get("ironworks", {}).get("role") for c in cells]
    assert roles.count("moment") == 1
    assert roles.count("text") == len(re.findall(r"\*(Investigate|Modify)\.\*", text))
    code = [c.source for c in cells if c.cell_type == "code"]
    predicted = next(n for n, source in enumerate(code) if "course.predict(" in source)
    shown = next(n for n, source in enumerate(code) if "course.reveal(" in source)
    assert predicted < shown, "a result shows before it is predicted"
    assert "*Before you go.*" in text


@pytest.mark.parametrize("name", NAMES)
def test_each_chapter_asserts_what_it_claims(name: str) -> None:
    """By counts, or a device that is simulated: no assertion is of a time that a clock took."""
    asserted = [
        line.strip()
        for cell in read(name).cells
        if cell.cell_type == "code" and not cell.id.startswith("check-")
        for line in cell.source.splitlines()
        if line.strip().startswith("assert ")
    ]
    assert asserted
    for line in asserted:
        assert not re.search(r"\.time\(|compare\(|perf_counter", line), line
