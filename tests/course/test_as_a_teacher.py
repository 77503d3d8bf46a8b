"""What a new teacher does on the first day, command by command: no more than ten."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from explorer.course.exercises import EXERCISES

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PARTS = ("explorer", "widgets", "notebooks", "tests/data", "Makefile", "pyproject.toml")
LEFT_OUT = ("__pycache__", ".ipynb_checkpoints", "course_log.jsonl")


@pytest.mark.exhaustive
def test_a_teacher_needs_ten_commands_at_most(tmp_path: Path) -> None:
    clone, commands = tmp_path / "ironworks", []

    def run(*words: str) -> str:
        commands.append(words)
        env = {**os.environ, "PYTHONPATH": str(clone), "IRONWORKS_COURSE_LOG": ""}
        done = subprocess.run(words, cwd=clone, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    # 1. a clone: the files that are under work here
    for part in PARTS:
        to = clone / part
        to.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, to, ignore=shutil.ignore_patterns(*LEFT_OUT))
        else:
            shutil.copy(ROOT / part, to)
    commands.append(("git", "clone"))

    # 2. make lab NOTEBOOK=notebooks/06_schedules.ipynb: what it would run, which needs the network
    assert "06_schedules.ipynb" in run("make", "-n", "lab", "NOTEBOOK=notebooks/06_schedules.ipynb")

    # 3. in chapter 6 a task count is another one: its first section, run as JupyterLab runs it
    chapter = nbformat.read(clone / "notebooks" / "06_schedules.ipynb", as_version=4)
    tasks = next(n for n, c in enumerate(chapter.cells) if 'ROperator("A", 3, 2.0)' in c.source)
    said = []
    for count in (3, 9):
        chapter.cells[tasks].source = re.sub(
            r'ROperator\("A", \d', f'ROperator("A", {count}', chapter.cells[tasks].source
        )
        first = nbformat.v4.new_notebook(cells=chapter.cells[: tasks + 1])
        NotebookClient(first, timeout=120, resources={"metadata": {"path": clone}}).execute()
        said.append("".join(o.text for o in first.cells[-1].outputs if o.output_type == "stream"))
    commands.append(("change a task count", "run"))
    assert "wavefront: 6 us" in said[0] and "wavefront: 8 us" in said[1], said

    # 4, 5. what students get, and what they do not
    course = (sys.executable, "-m", "explorer.course")
    assert "06_schedules" in run(*course, "list")
    student = clone / run(*course, "build", "06", "-o", "ps1").strip()
    assert EXERCISES["wall"].solution not in student.read_text("utf-8")

    # 6. two submissions are graded
    for name, right in (("ada", True), ("bob", False)):
        handed_in = json.loads(student.read_text("utf-8"))
        (answer,) = (c for c in handed_in["cells"] if c["id"] == "answer-wall")
        text = EXERCISES["wall"].solution
        answer["source"] = text if right else text.replace("free.index(min(free))", "0")
        (clone / f"{name}.ipynb").write_text(json.dumps(handed_in))
    told = json.loads(run(*course, "grade", "ada.ipynb", "bob.ipynb", "--seed", "7", "--json"))
    walls = [row for grade in told for row in grade["exercises"] if row["exercise"] == "wall"]
    assert walls[0]["points"] == walls[0]["of"] > walls[1]["points"]
    assert "a core was idle while there was work" in str(told[1])
    assert len(commands) <= 10
