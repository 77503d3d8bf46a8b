"""A chapter as it ran on this machine, for pages that have no kernel: with its outputs, the answers
of its predictions, the card of the machine and the day.

    python docs/record.py notebooks/02_rewriting.ipynb build/course/02_rewriting.ipynb
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from explorer.measure.machine import machine

SECONDS = 600  # of a cell
LIVE, CHART = "application/vnd.jupyter.widget-view+json", "application/vnd.plotly.v1+json"
# Notebooks reveal nothing without a student's answer. Slides show what would be revealed.
KEEP_ANSWERS = """
import numpy as _numpy

from explorer import course as _course

_answers, _reveal = {}, _course.reveal


def _reveal_and_keep(prediction, result):
    value = result()
    number = isinstance(value, (int, float, _numpy.number)) and not isinstance(value, bool)
    _answers[prediction.question] = f"{value:,.6g}" if number else str(value)
    return _reveal(prediction, result)


_course.reveal = _reveal_and_keep
"""
GROWN = """
import gc
import json
import plotly.graph_objects as go

charts = [o for o in gc.get_objects() if issubclass(type(o), go.FigureWidget)]
charts = {chart.model_id: json.loads(chart.to_json()) for chart in charts}
print(json.dumps({"charts": charts, "answers": _answers}))
"""


def record(chapter: Path, to: Path) -> None:
    """After: the file is there; where a cell fails, it is not."""
    notebook = nbformat.read(chapter, as_version=4)
    folder = {"metadata": {"path": str(chapter.parent)}}
    env = {**os.environ, "IRONWORKS_COURSE_LOG": ""}
    notebook.cells.insert(0, nbformat.v4.new_code_cell(KEEP_ANSWERS))
    notebook.cells.append(nbformat.v4.new_code_cell(GROWN))
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=folder).execute(
        env=env
    )
    grown = json.loads(notebook.cells.pop().outputs[0]["text"])
    del notebook.cells[0]
    for data in [o["data"] for c in notebook.cells for o in c.get("outputs", ()) if "data" in o]:
        chart = grown["charts"].get(data.get(LIVE, {}).get("model_id"))
        if chart:  # as it was at the end
            data[CHART] = chart
    notebook.metadata.pop("widgets", None)  # what only a kernel could use
    day = datetime.now(UTC).date().isoformat()
    notebook.metadata["answers"] = grown["answers"]
    notebook.metadata["recorded"] = {"machine": machine().line, "day": day}
    to.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, to)


if __name__ == "__main__":
    record(Path(sys.argv[1]), Path(sys.argv[2]))
