"""The tour runs from top to bottom, from where a reader opens it, and leaves pictures behind."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

TOUR = Path(__file__).parents[2] / "notebooks" / "00_tour.ipynb"


@pytest.mark.slow
def test_the_tour_runs_from_top_to_bottom() -> None:
    notebook = nbformat.read(TOUR, as_version=4)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": TOUR.parent}}
    ).execute()
    bundles = [
        output["data"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "application/vnd.jupyter.widget-view+json" in output.get("data", {})
    ]
    assert len(bundles) == 5
    for data in bundles:
        assert data["image/svg+xml"].startswith("<svg")
        assert data["text/plain"].count("\n") > 1


def test_the_tour_is_kept_without_outputs() -> None:
    notebook = nbformat.read(TOUR, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)


def test_each_section_of_the_tour_has_an_idea_an_experiment_and_an_exercise() -> None:
    notebook = nbformat.read(TOUR, as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    sections = text.split("\n## ")[1:-1]
    assert len(sections) == 7
    for section in sections:
        for part in ("*Idea.*", "*Experiment.*", "*Exercise.*"):
            assert section.count(part) == 1, section[:40]
