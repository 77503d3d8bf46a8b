"""Assignments from one source: for students, with solutions, and for graders, which grade them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import nbformat
import pytest

from explorer.course import assignment as grading
from explorer.course.__main__ import main
from explorer.course.assignment import assignment
from explorer.course.cells import Kind, cells
from explorer.course.exercises import EXERCISES
from explorer.trial.helper import Limits

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted({e.chapter for e in EXERCISES.values()})
KINDS: tuple[Kind, ...] = ("student", "solution", "nbgrader", "otter")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_what_is_made_is_a_notebook_and_only_a_students_has_no_solution(
    chapter: str, kind: Kind
) -> None:
    made = assignment(chapter, kind)
    nbformat.validate(nbformat.from_dict(made))
    text = "\n".join(cell["source"] for cell in made["cells"])
    for e in (e for e in EXERCISES.values() if e.chapter == chapter):
        last = e.solution.rstrip().splitlines()[-2 if "=" in e.solution.splitlines()[-1] else -1]
        assert (last.strip() in text) == (kind != "student" or last in e.stub)


@pytest.mark.parametrize("name", EXERCISES)
def test_a_chapter_has_its_exercises_as_their_source_says(name: str) -> None:
    chapter = ROOT / "notebooks" / f"{EXERCISES[name].chapter}.ipynb"
    kept = {c["id"]: c for c in json.loads(chapter.read_text("utf-8"))["cells"]}
    for cell in cells(EXERCISES[name], "student"):
        found = kept[cell["id"]]
        assert "".join(found["source"]) == cell["source"] and found["metadata"] == cell["metadata"]


def test_a_teacher_grades_two_submissions_of_a_chapter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the student's version to points, command by command."""
    for kind in ("student", "solution"):
        assert main(["build", "11", "--as", kind, "-o", str(tmp_path / kind)]) == 0
    student, solved = (tmp_path / k / "11_training.ipynb" for k in ("student", "solution"))
    half = json.loads(solved.read_text("utf-8"))
    for cell in half["cells"]:
        cell["source"] = cell["source"].replace("- (g * y)", "- 0 * (g * y)")
        cell["metadata"] = {}  # what tools lose on the way
    wrong = tmp_path / "wrong.ipynb"
    wrong.write_text(json.dumps(half))
    capsys.readouterr()
    paths = [str(path) for path in (student, solved, wrong)]
    assert main(["grade", *paths, "--json", "--seed", "5"]) == 0
    first, second, third = json.loads(capsys.readouterr().out)
    assert [first["exercises"][0]["outcome"], first["points"]] == ["not attempted", 0]
    assert second["points"] == second["of"] == 5
    assert third["points"] == 0 and "finite differences" in str(third)
    assert main(["grade", *paths]) == 0
    assert "vjp: not attempted, 0 of 5" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "is no notebook"), ("[]", "is no notebook"), ('{"cells": []}', "has no cell")],
)
def test_what_is_no_submission_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, why: str
) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(text)
    assert main(["grade", str(path)]) == 2
    assert why in capsys.readouterr().err
    assert main(["build", "99"]) == 2


@pytest.mark.parametrize(("chapter", "name"), [("08", "measuring"), ("11", "vjp")])
def test_a_cell_that_fails_or_never_ends_costs_its_own_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chapter: str, name: str
) -> None:
    monkeypatch.setattr(grading, "CELL_LIMITS", Limits(seconds=1.0))
    made = assignment(chapter, "student")
    for text, why in (
        ("1 / 0", "the cell fails: ZeroDivisionError"),
        ("x = 1", "KeyError"),
        ("while True: pass", "the cell took more than 1 s"),
    ):
        for cell in made["cells"]:
            if cell["id"] == f"answer-{name}":
                cell["source"] = text
        path = tmp_path / "a.ipynb"
        path.write_text(json.dumps(made))
        found = grading.graded(path, 1)
        assert found["points"] == 0 and why in str(found)


def run(folder: Path, *words: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "IRONWORKS_COURSE_LOG": ""}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def answered(path: Path, to: Path, right: bool) -> None:
    """A student's copy with an answer."""
    text = EXERCISES["vjp"].solution
    notebook: Any = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        if "def softmax_vjp" in "".join(cell["source"]):
            cell["source"] = text if right else text.replace("- (g * y)", "- 0 * (g * y)")
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(json.dumps(notebook))


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nbgrader"), reason="nbgrader is not installed")
def test_nbgraders_own_commands_grade_two_submissions(tmp_path: Path) -> None:
    main(["build", "11", "--as", "nbgrader", "-o", str(tmp_path / "source" / "ps1")])
    (tmp_path / "nbgrader_config.py").write_text(
        'c = get_config()\nc.CourseDirectory.course_id = "compilers"\n'
    )
    run(tmp_path, "nbgrader", "generate_assignment", "ps1", "--create")
    released = tmp_path / "release" / "ps1" / "11_training.ipynb"
    assert "keepdims" not in released.read_text() and "seed=" not in released.read_text()
    for student, right in (("ada", True), ("bob", False)):
        answered(released, tmp_path / "submitted" / student / "ps1" / released.name, right)
    run(tmp_path, "nbgrader", "autograde", "ps1", "--create")
    run(tmp_path, "nbgrader", "export")
    head, *rows = (tmp_path / "grades.csv").read_text().splitlines()
    at = [head.split(",").index(name) for name in ("student_id", "raw_score", "score", "max_score")]
    grades = {row.split(",")[at[0]]: [float(row.split(",")[n]) for n in at[2:]] for row in rows}
    assert grades == {"ada": [5.0, 5.0], "bob": [0.0, 5.0]}


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("otter"), reason="otter-grader is not installed")
def test_otters_own_commands_grade_two_submissions(tmp_path: Path) -> None:
    main(["build", "11", "--as", "otter", "-o", str(tmp_path)])
    run(tmp_path, "otter", "assign", "11_training.ipynb", "dist")
    student = tmp_path / "dist" / "student" / "11_training.ipynb"
    assert "keepdims" not in student.read_text() and "seed=" not in student.read_text()
    (grader,) = (tmp_path / "dist" / "autograder").glob("*.zip")
    for name, right, points in (("ada", True, 5.0), ("bob", False, 0.0)):
        path = tmp_path / name / "11_training.ipynb"
        answered(student, path, right)
        run(tmp_path, "otter", "run", "-a", str(grader), "-o", str(path.parent), str(path))
        told = json.loads((path.parent / "results.json").read_text())
        assert sum(t.get("score", 0.0) for t in told["tests"]) == points
