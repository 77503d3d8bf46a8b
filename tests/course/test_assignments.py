"""Assignments from one source: for students, with solutions, and for graders, which grade them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest

from explorer.course import grading
from explorer.course.__main__ import main
from explorer.course.assignment import Kind, assignment, cells, chapter_exercises
from explorer.course.exercises import EXERCISES
from explorer.course.fork_server import HelperServer
from explorer.process.sandbox import Limits
from tests.course.answers import WRONG

ROOT = Path(__file__).parents[2]
READ = ("09_control_flow", "02_rewriting", "06_schedules")  # the others when all is run
CHAPTERS = sorted({e.chapter for e in EXERCISES.values()})
POINTS = {c: sum(e.points for e in chapter_exercises(c)) for c in CHAPTERS}
KINDS: tuple[Kind, ...] = ("student", "solution", "nbgrader", "otter")


@pytest.fixture(scope="module")
def server() -> Iterator[HelperServer]:
    with HelperServer() as server:
        yield server


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


@pytest.mark.exhaustive
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
    assert {e["outcome"] for e in first["exercises"]} == {"not attempted"}
    assert first["points"] == 0 and second["points"] == second["of"] == POINTS["11_training"]
    assert third["points"] == second["of"] - 5 and "finite differences" in str(third)
    assert main(["grade", *paths]) == 0
    assert "vjp: not attempted, 0 of 5" in capsys.readouterr().out


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "chapter",
    [pytest.param(n, marks=() if n in READ else pytest.mark.exhaustive) for n in CHAPTERS],
)
def test_worked_solutions_that_are_handed_in_have_every_point(
    chapter: str, tmp_path: Path, server: HelperServer
) -> None:
    """Also of exercises whose functions are traced by their text, which no file holds here."""
    main(["build", chapter.partition("_")[0], "--as", "solution", "-o", str(tmp_path)])
    found = grading.grade_notebook(tmp_path / f"{chapter}.ipynb", 5, server)
    assert found["points"] == found["of"] == POINTS[chapter], found


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "is not a notebook"), ("[]", "is not a notebook"), ('{"cells": []}', "has no cell")],
)
def test_what_is_no_submission_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, why: str
) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(text)
    assert main(["grade", str(path)]) == 1
    assert why in capsys.readouterr().out
    assert main(["build", "99"]) == 2


def test_grading_goes_on_after_files_that_are_no_notebooks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.ipynb").write_bytes(b"\xff")
    (tmp_path / "b.ipynb").symlink_to("/dev/zero")
    (tmp_path / "c.ipynb").write_text("[" * 100_000)
    (tmp_path / "deeper" / ".ipynb_checkpoints").mkdir(parents=True)
    (tmp_path / "deeper" / ".ipynb_checkpoints" / "e.ipynb").write_text("{}")
    (tmp_path / "deeper" / "d\n.ipynb").write_text(json.dumps(assignment("08", "solution")))
    assert main(["grade", str(tmp_path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [bool(g["problem"]) for g in told] == [True, True, True, False]
    assert told[3]["points"] == told[3]["of"] == POINTS["08_measuring"]
    assert main(["grade", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    exercises = len(chapter_exercises("08_measuring"))
    assert lines[0].startswith("seed of the hidden checks: ") and len(lines) == 5 + exercises
    (tmp_path / "empty").mkdir()
    assert main(["grade", str(tmp_path / "empty")]) == 2


@pytest.mark.parametrize("kind", ["nbgrader", "otter"])
def test_a_test_cell_of_another_grader_loads_the_course_anew(kind: Kind, tmp_path: Path) -> None:
    made = assignment("08", kind, 7)["cells"]
    tests = [c["source"] for c in made if c["id"].startswith("test-measuring")]
    assert len(tests) == len(EXERCISES["measuring"].checks)
    attack = (
        "from explorer import course\nfrom explorer.course import checking\n"
        "course.expect = checking.expect = checking._run_checks = lambda *a, **k: None\n"
        "def verdict(a, b): return 'nothing'\n"
    )
    for test in tests:
        (tmp_path / "cell.py").write_text(f"{attack}\n{test}")
        env = {**os.environ, "PYTHONPATH": str(ROOT), "IRONWORKS_COURSE_LOG": ""}
        words = (sys.executable, str(tmp_path / "cell.py"))
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "AssertionError" in done.stderr, done.stderr


def test_seeds_are_drawn_unless_they_are_stated(tmp_path: Path) -> None:
    def hidden(*more: str) -> str:
        main(["build", "08", "--as", "nbgrader", "-o", str(tmp_path), *more])
        return source(tmp_path / "08_measuring.ipynb")

    assert hidden() != hidden()
    assert "seed=7)" in hidden("--seed", "7") and hidden("--seed", "7") == hidden("--seed", "7")


@pytest.mark.few(1)
@pytest.mark.parametrize(("chapter", "name"), [("08", "measuring"), ("11", "vjp")])
def test_a_cell_that_fails_or_never_ends_costs_its_own_points(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chapter: str,
    name: str,
    server: HelperServer,
) -> None:
    short = replace(EXERCISES[name], limits=Limits(seconds=1.0))
    monkeypatch.setattr(grading, "EXERCISES", {name: short})
    made = assignment(chapter, "student")
    for text, why in (
        ("1 / 0", "the cell fails: ZeroDivisionError"),
        ("x = 1", "the name in the stub; it defines x"),
        ("while True: pass", "the cell took more than 1 s"),
    ):
        for cell in made["cells"]:
            if cell["id"] == f"answer-{name}":
                cell["source"] = text
        path = tmp_path / "a.ipynb"
        path.write_text(json.dumps(made))
        found = grading.grade_notebook(path, 1, server)
        assert found["points"] == 0 and why in str(found)


def run(folder: Path, *words: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "IRONWORKS_COURSE_LOG": ""}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def answered(path: Path, to: Path, name: str, right: bool) -> None:
    """A student's copy with an answer: the worked solution, or the first of the wrong ones."""
    text = EXERCISES[name].solution if right else wrong(name)
    notebook: Any = json.loads(path.read_text("utf-8"))
    head = {f"def {EXERCISES[name].answer}(", f"{EXERCISES[name].answer} = "}
    (cell,) = (
        c
        for c in notebook["cells"]
        if c["cell_type"] == "code"
        and any(line.startswith(tuple(head)) for line in "".join(c["source"]).splitlines())
    )
    cell["source"] = text
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(json.dumps(notebook))


def wrong(name: str) -> str:
    return next(iter(WRONG[name].values()))[0]


def points_of(name: str, text: str, folder: Path, server: HelperServer) -> float:
    """By our own grading, with the seed that is written into notebooks of other graders."""
    made = assignment(EXERCISES[name].chapter.partition("_")[0], "student")
    for cell in made["cells"]:
        if cell["id"] == f"answer-{name}":
            cell["source"] = text
    path = folder / "ours.ipynb"
    path.write_text(json.dumps(made))
    return float(grading.grade_notebook(path, 0, server)["points"])


def told_too_much(name: str, text: str) -> list[str]:
    """The lines of the solution that a student's version has."""
    e = EXERCISES[name]
    own = [line for line in e.solution.splitlines() if len(line.strip()) > 12]
    own = [line for line in own if line not in e.stub.splitlines() and line.strip() not in e.goal]
    return [line for line in own if line.strip() in text]


# a pass, a policy and a program; the others when all is run
KINDS_OF_ANSWERS = ("double_negation", "wall", "vjp")
GRADED = [
    pytest.param(name, marks=() if name in KINDS_OF_ANSWERS else pytest.mark.exhaustive)
    for name in EXERCISES
]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nbgrader"), reason="nbgrader is not installed")
@pytest.mark.parametrize("name", GRADED)
def test_nbgraders_own_commands_grade_two_submissions(
    name: str, tmp_path: Path, server: HelperServer
) -> None:
    e = EXERCISES[name]
    main(
        [
            "build",
            e.chapter.partition("_")[0],
            "--as",
            "nbgrader",
            "-o",
            str(tmp_path / "source" / "ps1"),
        ]
    )
    (tmp_path / "nbgrader_config.py").write_text(
        'c = get_config()\nc.CourseDirectory.course_id = "compilers"\n'
    )
    run(tmp_path, "nbgrader", "generate_assignment", "ps1", "--create")
    released = tmp_path / "release" / "ps1" / f"{e.chapter}.ipynb"
    assert not told_too_much(name, source(released)) and "seed=" not in source(released)
    for student, right in (("ada", True), ("bob", False)):
        to = tmp_path / "submitted" / student / "ps1" / released.name
        answered(released, to, name, right)
    run(tmp_path, "nbgrader", "autograde", "ps1", "--create")
    run(tmp_path, "nbgrader", "export")
    head, *rows = (tmp_path / "grades.csv").read_text().splitlines()
    at = [head.split(",").index(key) for key in ("student_id", "raw_score", "score", "max_score")]
    grades = {row.split(",")[at[0]]: [float(row.split(",")[n]) for n in at[2:]] for row in rows}
    less = points_of(name, wrong(name), tmp_path, server)
    most = POINTS[e.chapter]
    assert less < e.points and grades == {"ada": [e.points, most], "bob": [less, most]}


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("otter"), reason="otter-grader is not installed")
@pytest.mark.parametrize("name", GRADED)
def test_otters_own_commands_grade_two_submissions(
    name: str, tmp_path: Path, server: HelperServer
) -> None:
    e = EXERCISES[name]
    main(["build", e.chapter.partition("_")[0], "--as", "otter", "-o", str(tmp_path)])
    run(tmp_path, "otter", "assign", f"{e.chapter}.ipynb", "dist")
    student = tmp_path / "dist" / "student" / f"{e.chapter}.ipynb"
    assert not told_too_much(name, source(student)) and "seed=" not in source(student)
    (grader,) = (tmp_path / "dist" / "autograder").glob("*.zip")
    less = points_of(name, wrong(name), tmp_path, server)
    assert less < e.points
    for who, right, points in (("ada", True, float(e.points)), ("bob", False, less)):
        path = tmp_path / who / f"{e.chapter}.ipynb"
        answered(student, path, name, right)
        run(tmp_path, "otter", "run", "-a", str(grader), "-o", str(path.parent), str(path))
        told = json.loads((path.parent / "results.json").read_text())
        assert sum(t.get("score", 0.0) for t in told["tests"]) == points


def source(path: Path) -> str:
    """All code and words of a notebook."""
    return "\n".join("".join(c["source"]) for c in json.loads(path.read_text("utf-8"))["cells"])
