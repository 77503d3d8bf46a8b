"""Assignments, the exercises of a chapter as a notebook to hand in, and their grades."""

from __future__ import annotations

import json
import linecache
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from explorer.course.cells import Kind, cells, markdown, notebook, raw
from explorer.course.checking import Verdict, exercise, grade, verdict_without_answer
from explorer.course.exercise import Exercise
from explorer.course.exercises import EXERCISES
from explorer.errors import BadOption
from explorer.sandbox.helper import Ended, Limits, in_helper
from explorer.sandbox.line import at_line

MOST_BYTES = 1 << 24  # limit of a submitted notebook; chosen
CELL_LIMITS = Limits(seconds=120.0)


def chapter_exercises(chapter: str) -> tuple[Exercise, ...]:
    """Return the exercises of a chapter, by its name or its number.

    Raises:
        BadOption: the chapter has no exercises.
    """
    exercises = tuple(e for e in EXERCISES.values() if chapter in (e.chapter, e.chapter[:2]))
    if not exercises:
        chapters = ", ".join(sorted({e.chapter for e in EXERCISES.values()}))
        raise BadOption(
            f"there is no chapter {chapter!r} with exercises", where=chapter, expected=chapters
        )
    return exercises


def assignment(chapter: str, kind: Kind, seed: int = 0) -> dict[str, Any]:
    """Return the exercises of a chapter as a notebook for students, teachers or graders."""
    exercises = chapter_exercises(chapter)
    title = markdown("title", f"# Exercises of {exercises[0].chapter}")
    head = [title] if kind != "otter" else [raw("config", _config(exercises[0].chapter)), title]
    return notebook([*head, *(cell for e in exercises for cell in cells(e, kind, seed))])


def _config(chapter: str) -> str:
    lines = ("# ASSIGNMENT CONFIG", f"name: {chapter}", "init_cell: true", "run_tests: false")
    return "\n".join((*lines, "export_cell: false", "generate: {}"))


def write_assignment(chapter: str, kind: Kind, folder: Path, seed: int = 0) -> Path:
    """Write the assignment to a file of a folder, which is created."""
    document = assignment(chapter, kind, seed)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{chapter_exercises(chapter)[0].chapter}.ipynb"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def grade_notebook(path: Path, seed: int) -> dict[str, Any]:
    """Grade a notebook: a verdict for each exercise that it has an answer cell for.

    Only answer cells run, each in a helper process. This bounds time and memory but does not
    protect against malicious code: grade strangers' work in a container.
    """
    verdicts = [
        _grade_in_helper(name, source, seed).as_json() for name, source in answers(path).items()
    ]
    points, of = (sum(v[key] for v in verdicts) for key in ("points", "of"))
    return {"submission": str(path), "points": points, "of": of, "exercises": verdicts}


def answers(path: Path) -> Mapping[str, str]:
    """Return the answer cells of a notebook by exercise.

    Raises:
        BadOption: the file is no notebook, or has no answer cell.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError("it is larger than 16 MiB")
        notebook_cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        sources = {name: text for cell in notebook_cells for name, text in _answer_source(cell)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise BadOption(f"{path} is not a notebook: {problem}", where=str(path)) from problem
    if not sources:
        raise BadOption(f"{path} has no cell with an answer", where=str(path))
    return sources


def _answer_source(cell: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the exercise and the source of an answer cell.

    Tools may drop the metadata of a cell; its id is the fallback.
    """
    name = cell.get("metadata", {}).get("ironworks", {}).get("exercise", "")
    name = name or str(cell.get("id", "")).removeprefix("answer-")
    source = cell.get("source", "")
    text = source if isinstance(source, str) else "".join(source)
    return [(name, text)] if name in EXERCISES and cell.get("cell_type") == "code" else []


def _grade_in_helper(name: str, source: str, seed: int) -> Verdict:
    def run(report: Any) -> None:
        report(json.dumps(_run_and_grade(name, source, seed).as_json()))

    try:
        (text,) = in_helper(run, CELL_LIMITS)
    except Ended as ended:
        return verdict_without_answer(name, f"the cell {ended.why}")
    return Verdict.of_json(json.loads(text))


def _run_and_grade(name: str, source: str, seed: int) -> Verdict:
    space: dict[str, Any] = {"__name__": "__main__"}
    file = f"<cell answer-{name}>"
    linecache.cache[file] = (
        len(source),
        None,
        source.splitlines(keepends=True),
        file,
    )  # for tracebacks
    try:
        exec(compile(source, file, "exec"), space)
        answer = space[exercise(name).answer]
    except NotImplementedError:
        return verdict_without_answer(name)
    except (Exception, SystemExit) as problem:  # a student's cell may raise anything
        return verdict_without_answer(name, f"the cell fails: {problem!r}{at_line(problem)}")
    return grade(name, answer, seed)


def table(grades: Sequence[Mapping[str, Any]]) -> str:
    """Format grades as lines of text."""
    lines = []
    for submission in grades:
        lines.append(
            f"{submission['submission']}: {submission['points']} of {submission['of']} points"
        )
        for e in submission["exercises"]:
            lines.append(f"  {e['exercise']}: {e['outcome']}, {e['points']} of {e['of']}")
            messages = (f"    {c['words']}: {c['message']}" for c in e["checks"] if c["message"])
            lines += messages
    return "\n".join(lines)
