"""An assignment, the exercises of a chapter as a notebook to hand in; and its grades."""

from __future__ import annotations

import json
import linecache
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from explorer.course.cells import Kind, cells, markdown, notebook, raw
from explorer.course.checking import Verdict, exercise, grade, unmade
from explorer.course.exercise import Exercise
from explorer.course.exercises import EXERCISES
from explorer.errors import BadOption
from explorer.sandbox.helper import Ended, Limits, in_helper
from explorer.sandbox.line import at_line

MOST_BYTES = 1 << 24  # of a notebook that is handed in; chosen
CELL_LIMITS = Limits(seconds=120.0)


def of_chapter(chapter: str) -> tuple[Exercise, ...]:
    """The exercises of a chapter, by its name or its number; BadOption where it has none."""
    found = tuple(e for e in EXERCISES.values() if chapter in (e.chapter, e.chapter[:2]))
    if not found:
        known = ", ".join(sorted({e.chapter for e in EXERCISES.values()}))
        raise BadOption(f"{chapter!r} is no chapter with exercises", where=chapter, expected=known)
    return found


def assignment(chapter: str, kind: Kind, seed: int = 0) -> dict[str, Any]:
    """The exercises of a chapter as a notebook, for students, with solutions, or for a grader."""
    given = of_chapter(chapter)
    title = markdown("title", f"# Exercises of {given[0].chapter}")
    head = [title] if kind != "otter" else [raw("config", _config(given[0].chapter)), title]
    return notebook([*head, *(cell for e in given for cell in cells(e, kind, seed))])


def _config(chapter: str) -> str:
    lines = ("# ASSIGNMENT CONFIG", f"name: {chapter}", "init_cell: true", "run_tests: false")
    return "\n".join((*lines, "export_cell: false", "generate: {}"))


def write(chapter: str, kind: Kind, folder: Path, seed: int = 0) -> Path:
    """The assignment in a file of that folder, which is made."""
    made = assignment(chapter, kind, seed)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{of_chapter(chapter)[0].chapter}.ipynb"
    path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def graded(path: Path, seed: int) -> dict[str, Any]:
    """What is handed in, graded: a verdict for each exercise that it has a cell for. Nothing else
    of the notebook is run, and each cell runs in a helper process.

    It bounds time and memory, and is no wall against who means harm: grade strangers' work in a
    container.
    """
    found = [_verdict(name, source, seed).as_json() for name, source in answers(path).items()]
    points, of = (sum(v[what] for v in found) for what in ("points", "of"))
    return {"submission": str(path), "points": points, "of": of, "exercises": found}


def answers(path: Path) -> Mapping[str, str]:
    """The answer cells of a notebook by exercise; BadOption where it is no notebook with any."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError("it is larger than 16 MiB")
        told = json.loads(path.read_text(encoding="utf-8"))["cells"]
        found = {name: text for cell in told for name, text in _answer(cell)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise BadOption(f"{path} is no notebook: {problem}", where=str(path)) from problem
    if not found:
        raise BadOption(f"{path} has no cell with an answer", where=str(path))
    return found


def _answer(cell: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The mark may be lost on the way, the cell's id seldom is."""
    name = cell.get("metadata", {}).get("ironworks", {}).get("exercise", "")
    name = name or str(cell.get("id", "")).removeprefix("answer-")
    source = cell.get("source", "")
    text = source if isinstance(source, str) else "".join(source)
    return [(name, text)] if name in EXERCISES and cell.get("cell_type") == "code" else []


def _verdict(name: str, source: str, seed: int) -> Verdict:
    def run(tell: Any) -> None:
        tell(json.dumps(_judged(name, source, seed).as_json()))

    try:
        (told,) = in_helper(run, CELL_LIMITS)
    except Ended as ended:
        return unmade(name, f"the cell {ended.why}")
    return Verdict.of_json(json.loads(told))


def _judged(name: str, source: str, seed: int) -> Verdict:
    space: dict[str, Any] = {"__name__": "__main__"}
    file = f"<cell answer-{name}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file  # to trace
    try:
        exec(compile(source, file, "exec"), space)
        answer = space[exercise(name).answer]
    except NotImplementedError:
        return unmade(name)
    except (Exception, SystemExit) as problem:  # a student's cell may raise anything
        return unmade(name, f"the cell fails: {problem!r}{at_line(problem)}")
    return grade(name, answer, seed)


def table(grades: Sequence[Mapping[str, Any]]) -> str:
    """Grades as lines of text."""
    lines = []
    for one in grades:
        lines.append(f"{one['submission']}: {one['points']} of {one['of']} points")
        for e in one["exercises"]:
            lines.append(f"  {e['exercise']}: {e['outcome']}, {e['points']} of {e['of']}")
            said = (f"    {c['words']}: {c['said']}" for c in e["checks"] if c["said"])
            lines += said
    return "\n".join(lines)
