"""The rule by which a line shows an answer, and what a cell that reveals holds."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.widgets.predictions import calls, insert_answers, leaks, reveals, shows

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
KERNELS = "How many kernels remain after fusion?"
TILES = "Which of 8 x 32 and 16 x 16 reads the fewest elements?"


@pytest.mark.parametrize(
    ("line", "answer", "question"),
    [
        ("26 kernels with fusion", 26, KERNELS),
        ("three kernels remain", 3, KERNELS),
        ("assert count == 3", 3, KERNELS),
        ("it is 16.6 to one", 16.64, "What is the ridge?"),
        ("96.0 MiB more", 96, "How many MiB more?"),
        ("moved: 61,948,352", 61_948_352, "How many bytes?"),
        ("concat: float32[n, m + 4]", "m + 4", "What is the last dim?"),
        ('assert min(reads) == "16 x 16"', "16 x 16", TILES),
        ("16 x 16: loads 0.125 elements", "16 x 16", TILES),
    ],
)
def test_a_line_that_shows_an_answer_is_found(
    line: str, answer: int | float | str, question: str
) -> None:
    assert shows(line, answer, question)


@pytest.mark.parametrize(
    ("line", "answer", "question"),
    [
        ("median 26 us", 26, KERNELS),
        ("126 kernels, 2.6 each, 26x faster, 0.26", 26, KERNELS),
        ("size = 16 x 16", "16 x 16", TILES),
        ("17 of 20 fit", 16.64, "What is the ridge?"),
    ],
)
def test_a_number_that_stands_for_something_else_is_none(
    line: str, answer: int | float | str, question: str
) -> None:
    assert not shows(line, answer, question)


def test_a_notebook_that_prints_an_answer_too_early_is_found() -> None:
    cell = nbformat.v4.new_code_cell
    notebook = nbformat.v4.new_notebook(
        cells=[
            cell("from explorer import course\nkernels = 12\nprint(kernels, 'kernels remain')"),
            cell(f"guess = course.predict({KERNELS!r}, ...)"),
            cell("course.reveal(guess, lambda: kernels);"),
            cell("print(kernels, 'kernels remain')"),
        ]
    )
    insert_answers(notebook)
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    assert leaks(notebook) == [
        f"{KERNELS} cell 0 shows 12: kernels = 12",
        f"{KERNELS} cell 0 shows 12: 12 kernels remain",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_cell_that_reveals_ends_so_and_shows_nothing_else(path: Path) -> None:
    """An assertion would give a bound of the answer, to who reads the cell before running it."""
    notebook = nbformat.read(path, as_version=4)
    found = reveals(notebook)
    asked = [c for c in notebook.cells if c.cell_type == "code" and calls(c.source, "predict")]
    assert found and len(found) == len(asked)
    for reveal in found:
        source = notebook.cells[reveal.cell].source
        tree = ast.parse(source)
        assert source.endswith(";") and ast.unparse(tree.body[-1]).startswith("course.reveal(")
        for node in ast.walk(tree):
            assert not isinstance(node, ast.Assert), f"cell {reveal.cell} asserts"
            printed = isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
            assert not printed, f"cell {reveal.cell} prints"
