"""Grades in the formats of other systems: a gradebook for Canvas, results for Gradescope.

A grade is a JSON object of `grading.grade_notebook`. Exports hold points and reasons, and never the
seed of the hidden checks, by which their values could be drawn again.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from explorer.course.assignment import chapter_exercises
from explorer.course.checking import verdict_without_answer
from explorer.course.exercises import EXERCISES
from explorer.course.grading import CHECKPOINTS, LONGEST_CHARACTERS, OPEN_WARNING, Grade
from explorer.errors import BadOption, printable
from explorer.frontends.shipped import CHECKOUT

STUDENT_COLUMNS = ("Student", "ID", "SIS Login ID", "Section")  # their order is Canvas's
POINTS_ROW = "Points Possible"
FORMULA = re.compile(r"[=+\-@\t\r\n]")  # a spreadsheet computes a cell that begins so
CANVAS_FILE = re.compile(r"[^_]+_(?:late_)?(\d+)_\d+_", re.I)  # name, its user's ID, the file's
OUTSIDE_CHAPTER = "no answer of chapter {chapter} was handed in"
PASSED = "passed"
HIDDEN_VISIBILITY = "after_published"  # students see hidden checks with their grades
CHECKOUT_PARTS = ("explorer", "widgets", "tests/data", "pyproject.toml", "requirements.lock")


@dataclass(slots=True)
class StudentScores:
    """The scores of one student: points by chapter, None where a notebook could not be graded."""

    name: str
    canvas_id: str = ""
    points: dict[str, int | None] = field(default_factory=dict)


def student_of(notebook: Path, roots: Sequence[Path]) -> str:
    """Return the student of a submitted notebook, by its folder or the beginning of its file name.

    `roots` are the paths of the command line. A notebook in a folder below one of them belongs to
    that folder. Otherwise its file name up to the first `_` names the student, or its folder if the
    file has the name of a chapter.
    """
    name = notebook.stem.partition("_")[0]
    if notebook.stem in {e.chapter for e in EXERCISES.values()}:
        name = notebook.resolve().parent.name
    for folder in roots:
        if folder in notebook.parents:
            name = next(iter(notebook.relative_to(folder).parts[:-1]), name)
    return name.strip(". ") or "unnamed"  # a name is a folder of results


def select_chapter(grades: Sequence[Grade], chapter: str) -> list[Grade]:
    """Return grades with the exercises of one chapter alone, those without an answer included."""
    wanted = [e.name for e in chapter_exercises(chapter)]
    selected = []
    for grade in grades:
        by_name = {row["exercise"]: row for row in grade["exercises"]}
        problem = grade["problem"]
        if not problem and not by_name.keys() & set(wanted):
            problem = OUTSIDE_CHAPTER.format(chapter=chapter)
        rows = [by_name.get(name) or verdict_without_answer(name).as_json() for name in wanted]
        rows = [] if problem else rows
        points, of = (sum(row[key] for row in rows) for key in ("points", "of"))
        selected.append(
            {**grade, "points": points, "of": of, "problem": problem, "exercises": rows}
        )
    return selected


def gradebook(grades: Sequence[Grade], roots: Sequence[Path]) -> str:
    """Return the grades as a CSV file that Canvas's gradebook imports.

    A row is a student, a column is a chapter. Of several notebooks of a student for a chapter the
    best counts. A cell is empty where there is no notebook, or where it could not be graded.
    """
    students: dict[str, StudentScores] = {}
    chapters: dict[str, int] = {}
    for grade in grades:
        path = Path(grade["submission"])
        name = student_of(path, roots)
        scores = students.setdefault(name, StudentScores(name))
        in_canvas = CANVAS_FILE.match(path.name)
        scores.canvas_id = in_canvas[1] if in_canvas else scores.canvas_id
        for chapter, points in _points_by_chapter(grade).items():
            chapters[chapter] = sum(e.points for e in chapter_exercises(chapter))
            scores.points[chapter] = max(points, scores.points.get(chapter) or 0)
    columns = [c for c in dict.fromkeys(e.chapter for e in EXERCISES.values()) if c in chapters]
    columns.sort()
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*STUDENT_COLUMNS, *columns])
    table.writerow([POINTS_ROW, "", "", "", *(chapters[c] for c in columns)])
    for scores in sorted(students.values(), key=lambda s: s.name):
        name = escape_formula(scores.name)
        marks = [scores.points.get(c, "") for c in columns]
        table.writerow([name, scores.canvas_id, name, "", *marks])
    return text.getvalue()


def _points_by_chapter(grade: Grade) -> dict[str, int]:
    points: dict[str, int] = {}
    for row in grade["exercises"]:
        chapter = EXERCISES[row["exercise"]].chapter
        points[chapter] = points.get(chapter, 0) + row["points"]
    return points


def escape_formula(text: str) -> str:
    """Return a name that no spreadsheet computes: one line, with a `'` before a formula."""
    return f"'{printable(text)}" if FORMULA.match(text) else printable(text)


def results(grades: Sequence[Grade]) -> dict[str, Any]:
    """Return the grades of one student's notebooks in the form of Gradescope's `results.json`.

    Each check is a test. Of several answers to an exercise the best counts. The whole file says
    so where nothing could be graded.
    """
    best: dict[str, Mapping[str, Any]] = {}
    for row in (row for grade in grades for row in grade["exercises"]):
        before = best.get(row["exercise"])
        if before is None or row["points"] > before["points"]:
            best[row["exercise"]] = row
    tests = [test for row in best.values() for test in _tests(row)]
    problems = [g["problem"] for g in grades if g["problem"]]
    return {
        "score": sum(test["score"] for test in tests),
        "output": "\n".join(f"not graded: {printable(p)}" for p in problems),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",  # the command prints the seed there
        "tests": tests,
        "extra_data": {"jailed": all(g["jailed"] for g in grades)},
    }


def _tests(row: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    for check, result in zip(EXERCISES[row["exercise"]].checks, row["checks"]):
        message = result["message"] or ("" if result["outcome"] == PASSED else result["outcome"])
        yield {
            "name": f"{row['exercise']}: {result['words']}",
            "score": result["points"],
            "max_score": result["of"],
            "status": "passed" if result["outcome"] == PASSED else "failed",
            "output": printable(message, LONGEST_CHARACTERS),
            "output_format": "text",
            "visibility": HIDDEN_VISIBILITY if check.hidden else "visible",
        }


def write_gradebook(grades: Sequence[Grade], roots: Sequence[Path], to: Path) -> None:
    """Write the gradebook to a file; a reader finds all of it or what was there before."""
    _write(to, gradebook(grades, roots))


def write_results(grades: Sequence[Grade], roots: Sequence[Path], to: Path) -> list[Path]:
    """Write `results.json` of each student to a folder of its name, and return the files.

    If the path ends in `.json`, all notebooks are of one student, and the file has that path.
    """
    if to.suffix == ".json":
        _write(to, json.dumps(results(grades), indent=1))
        return [to]
    by_student: dict[str, list[Grade]] = {}
    for grade in grades:
        by_student.setdefault(student_of(Path(grade["submission"]), roots), []).append(grade)
    files = []
    for name, own in by_student.items():
        file = to / name / "results.json"
        _write(file, json.dumps(results(own), indent=1))
        files.append(file)
    return files


def _write(path: Path, text: str) -> None:
    """Write a file in one step.

    Raises:
        BadOption: the file cannot be written.
    """
    beside = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as problem:
        raise BadOption(f"{path} cannot be written: {problem}", where=str(path)) from problem


def write_autograder(chapter: str, folder: Path) -> Path:
    """Write the folder whose files, zipped, are a Gradescope autograder of a chapter.

    Raises:
        BadOption: the package does not run from a checkout, whose lock file it needs.
    """
    name = chapter_exercises(chapter)[0].chapter
    missing = [part for part in CHECKOUT_PARTS if not (CHECKOUT / part).exists()]
    if missing:
        raise BadOption(
            f"an autograder is built from a checkout, and {CHECKOUT} has no {missing[0]}",
            where=str(CHECKOUT),
        )
    source = folder / name
    for part in CHECKOUT_PARTS:
        to = source / part
        to.parent.mkdir(parents=True, exist_ok=True)
        if (CHECKOUT / part).is_dir():
            left_out = shutil.ignore_patterns("__pycache__", CHECKPOINTS, "wrong")
            shutil.copytree(CHECKOUT / part, to, ignore=left_out, dirs_exist_ok=True)
        else:
            shutil.copy(CHECKOUT / part, to)
    for file, text in (("setup.sh", SETUP), ("run_autograder", RUN), ("README.md", README)):
        _write(source / file, text.replace("CHAPTER", name).replace("OPEN_WARNING", OPEN_WARNING))
    for file in ("setup.sh", "run_autograder"):
        (source / file).chmod(0o755)
    return source


SETUP = """\
#!/usr/bin/env bash
# Gradescope runs this once, as root, while it builds the image.
set -euo pipefail
python=""
for candidate in python3.13 python3.12 python3.11; do
    if command -v "$candidate" > /dev/null; then python="$candidate"; break; fi
done
if [ -z "$python" ]; then
    apt-get update -qq
    apt-get install -y -qq python3.11 python3.11-venv
    python=python3.11
fi
"$python" -m venv /autograder/venv \\
    || { apt-get update -qq; apt-get install -y -qq "$python-venv"; \\
         "$python" -m venv --clear /autograder/venv; }
/autograder/venv/bin/python -m pip install --quiet --require-hashes \\
    -r /autograder/source/requirements.lock
"""
RUN = """\
#!/usr/bin/env bash
# Gradescope runs this for each submission. AUTOGRADER is another folder only in a test.
set -euo pipefail
home="${AUTOGRADER:-/autograder}"
python="${AUTOGRADER_PYTHON:-$home/venv/bin/python}"
mkdir -p "$home/results"
rm -f "$home/results/results.json"
cd "$home"
PYTHONPATH="$home/source" "$python" -m explorer.course grade "$home/submission" \\
    --chapter CHAPTER --results "$home/results/results.json" || true
if [ ! -f "$home/results/results.json" ]; then
    echo '{"score": 0, "output": "There is no notebook of CHAPTER in this submission."}' \\
        > "$home/results/results.json"
fi
"""
README = """\
# An autograder for CHAPTER

Zip the files of this folder, not the folder itself (`cd CHAPTER && zip -qr ../CHAPTER.zip .`), and
upload the archive. The assignment's total is the points of `python -m explorer.course list` for
this chapter. The image needs Python 3.11 or newer; `setup.sh` installs it if it can, and then the
packages of `requirements.lock`.

Each submission is graded in a container of its own, with a seed that is drawn anew and printed to
the output that only instructors see. To repeat a grading, run
`python -m explorer.course grade NOTEBOOK --chapter CHAPTER --seed SEED` in a checkout.

A container may forbid the Linux namespaces in which answers run. The printed report then begins
with this line: "OPEN_WARNING". `extra_data` of the results has `"jailed": false`. An answer can
then read the files of this folder, and the worked solutions are among them. Where that matters,
grade the downloaded submissions on a machine of yours instead, and upload the scores.
"""
