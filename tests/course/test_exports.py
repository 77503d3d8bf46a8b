"""Scores in the formats of other systems: what their importers read, and no cell that computes."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from explorer.course import exports
from explorer.course.__main__ import main
from explorer.course.assignment import chapter_exercises, write_assignment
from explorer.course.exercises import EXERCISES
from explorer.course.grading import OPEN_WARNING

ROOT = Path(__file__).parents[2]
NAMES = [e.name for e in chapter_exercises("06")]
POINTS = sum(e.points for e in chapter_exercises("06"))


def graded(path: Path | str, *names: str, right: bool = True, problem: str = "") -> dict[str, Any]:
    """A grade as `grading` returns it: all points of these exercises, or none."""
    outcome = "passed" if right else "wrong"
    rows = [
        {
            "exercise": name,
            "outcome": outcome,
            "points": right * EXERCISES[name].points,
            "of": EXERCISES[name].points,
            "includes_hidden": True,
            "checks": [
                {
                    "words": c.words,
                    "outcome": outcome,
                    "points": right * c.points,
                    "of": c.points,
                    "message": "" if right else "3 is not 4",
                }
                for c in EXERCISES[name].checks
            ],
        }
        for name in names
    ]
    return {
        "submission": str(path),
        "points": sum(row["points"] for row in rows),
        "of": sum(row["of"] for row in rows),
        "problem": problem,
        "seed": 4096,
        "jailed": True,
        "exercises": rows,
    }


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(text.splitlines()))


@pytest.mark.parametrize(
    ("path", "roots", "student"),
    [
        ("ps1/ada/06_schedules.ipynb", "ps1", "ada"),
        ("ps1/ada/late/work.ipynb", "ps1", "ada"),
        ("ps1/ada_06_schedules.ipynb", "ps1", "ada"),
        ("ps1/lovelaceada_LATE_123_4567_06_schedules.ipynb", "ps1", "lovelaceada"),
        ("ada/06_schedules.ipynb", "ada/06_schedules.ipynb", "ada"),
        ("ada.ipynb", "ada.ipynb", "ada"),
        ("ps1/_.ipynb", "ps1", "unnamed"),
        ("ps1/...ipynb", "ps1", "unnamed"),
    ],
)
def test_a_student_is_a_folder_or_the_beginning_of_a_file_name(
    path: str, roots: str, student: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exports.student_of(Path(path), [Path(roots)]) == student


def test_a_gradebook_has_the_rows_and_columns_that_canvas_reads() -> None:
    """The first four columns, then `Points Possible`, then a row a student, by its name."""
    grades = [
        graded("ps1/bob_5.ipynb", *NAMES, right=False),
        graded("ps1/lovelaceada_123_4567_06.ipynb", *NAMES),
        graded("ps1/lovelaceada_123_4567_08.ipynb", "measuring"),
        graded("ps1/eve_1.ipynb", problem="it is not a notebook"),
    ]
    header, points, *students = rows(exports.gradebook(grades, [Path("ps1")]))
    assert header == [
        *("Student", "ID", "SIS Login ID", "Section"),
        *("06_schedules", "08_measuring"),
    ]
    measuring = str(sum(e.points for e in chapter_exercises("08")))
    assert points == ["Points Possible", "", "", "", str(POINTS), measuring]
    assert students == [
        ["bob", "", "bob", "", "0", ""],
        ["eve", "", "eve", "", "", ""],
        ["lovelaceada", "123", "lovelaceada", "", str(POINTS), str(EXERCISES["measuring"].points)],
    ]


def test_the_best_of_several_notebooks_counts() -> None:
    grades = [
        graded("ps1/ada/1.ipynb", *NAMES),
        graded("ps1/ada/2.ipynb", *NAMES, right=False),
    ]
    assert rows(exports.gradebook(grades, [Path("ps1")]))[2][4] == str(POINTS)
    assert exports.results(grades)["score"] == POINTS


@pytest.mark.parametrize("name", ['=HYPERLINK("x")', "+1", "-1", "@SUM(1)", "\tx", "a\nb,c"])
def test_a_name_is_never_a_formula(name: str) -> None:
    (student,) = rows(exports.gradebook([graded(f"ps1/{name}/1.ipynb", *NAMES)], [Path("ps1")]))[2:]
    assert student[0] == student[2] and student[0][0] not in "=+-@\t"
    assert len(student) == 5 and "\n" not in student[0]


def test_results_have_a_test_for_each_check_and_never_the_seed() -> None:
    made = exports.results([graded("ada.ipynb", *NAMES, right=False)])
    checks = [c for name in NAMES for c in EXERCISES[name].checks]
    assert made["score"] == 0 and len(made["tests"]) == len(checks)
    for test, check in zip(made["tests"], checks):
        assert test["max_score"] == check.points and test["score"] == 0
        assert test["name"].endswith(check.words) and test["output"] == "3 is not 4"
        assert test["visibility"] == ("after_published" if check.hidden else "visible")
        assert test["status"] == "failed"
    assert made["extra_data"] == {"jailed": True} and "4096" not in json.dumps(made)
    failed = exports.results([graded("ada.ipynb", problem="it is not a notebook")])
    assert failed["score"] == 0 and failed["output"] == "not graded: it is not a notebook"


def test_a_chapter_counts_alone_with_what_was_not_handed_in() -> None:
    only = exports.select_chapter([graded("a.ipynb", "measuring"), graded("b.ipynb", *NAMES)], "06")
    assert only[0]["problem"] == "no answer of chapter 06 was handed in" and only[0]["points"] == 0
    assert (only[1]["points"], only[1]["of"]) == (POINTS, POINTS)
    one = exports.select_chapter([graded("c.ipynb", "wall")], "06")[0]
    assert one["of"] == POINTS and one["points"] == EXERCISES["wall"].points


def test_a_file_is_all_there_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to = tmp_path / "scores.csv"
    exports.write_gradebook([graded("ada.ipynb", *NAMES)], [], to)
    before = to.read_text("utf-8")

    def full(self: Path, target: Path) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(exports.BadOption, match="no space left"):
        exports.write_gradebook([graded("bob.ipynb", *NAMES)], [], to)
    assert to.read_text("utf-8") == before


@pytest.mark.slow
def test_grade_writes_what_its_options_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two students, by folder; the exit code and the printed report are as without exports."""
    for name, kind in (("ada", "solution"), ("bob", "student")):
        write_assignment("06", kind, tmp_path / "ps1" / name)  # type: ignore[arg-type]
    files = ["--csv", str(tmp_path / "scores.csv"), "--results", str(tmp_path / "results")]
    assert main(["grade", str(tmp_path / "ps1"), "--seed", "5", "--chapter", "06", *files]) == 0
    assert "seed of the hidden checks: 5" in capsys.readouterr().out
    table = rows((tmp_path / "scores.csv").read_text("utf-8"))
    assert [(row[0], row[4]) for row in table[2:]] == [("ada", str(POINTS)), ("bob", "0")]
    made = json.loads((tmp_path / "results" / "ada" / "results.json").read_text("utf-8"))
    assert made["score"] == POINTS and all(t["status"] == "passed" for t in made["tests"])
    assert (tmp_path / "results" / "bob" / "results.json").is_file()
    assert main(["grade", str(tmp_path / "ps1"), "--chapter", "99"]) == 2


@pytest.mark.slow
@pytest.mark.exhaustive
def test_an_autograder_writes_results_of_a_right_and_of_a_missing_notebook(tmp_path: Path) -> None:
    """Its folder, laid out as Gradescope lays it out, and run as Gradescope runs it."""
    assert main(["build", "06", "--as", "gradescope", "-o", str(tmp_path)]) == 0
    home = tmp_path / "autograder"
    shutil.move(tmp_path / "06_schedules", home / "source")
    run = home / "source" / "run_autograder"
    assert os.access(run, os.X_OK) and os.access(home / "source" / "setup.sh", os.X_OK)
    environment = {
        **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        "AUTOGRADER": str(home),
        "AUTOGRADER_PYTHON": sys.executable,
        "IRONWORKS_CACHE": str(tmp_path / "cache"),
    }

    def grade() -> tuple[dict[str, Any], str]:
        done = subprocess.run([run], env=environment, capture_output=True, text=True, check=True)
        return json.loads((home / "results" / "results.json").read_text("utf-8")), done.stdout

    (home / "submission").mkdir()
    (home / "submission" / "notes.txt").write_text("no notebook")
    missing, _ = grade()
    assert missing["score"] == 0 and "no notebook of 06_schedules" in missing["output"]
    write_assignment("06", "solution", home / "submission")
    right, printed = grade()
    assert right["score"] == POINTS, right
    assert right["extra_data"]["jailed"] == (OPEN_WARNING not in printed)
    readme = (home / "source" / "README.md").read_text("utf-8")
    assert OPEN_WARNING in readme and "CHAPTER" not in readme
    for script in ("setup.sh", "run_autograder"):
        subprocess.run(["bash", "-n", home / "source" / script], check=True)


def test_an_autograder_needs_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "CHECKOUT_PARTS", ("explorer", "no_such_file"))
    with pytest.raises(exports.BadOption, match=r"built from a checkout, and .* has no no_such"):
        exports.write_autograder("06", tmp_path)
