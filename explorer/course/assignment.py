"""Assignments: the exercises of a chapter as a notebook to hand in, and its cells."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Literal

from explorer.course.exercise import Exercise
from explorer.course.exercises import EXERCISES
from explorer.errors import BadOption

TODO = "raise NotImplementedError"
FRESH_COURSE = """\
import sys

for name in [m for m in sys.modules if m.split(".")[:2] == ["explorer", "course"]]:
    del sys.modules[name]  # earlier cells may have replaced its functions
import explorer.course as course
"""


def chapter_exercises(chapter: str) -> tuple[Exercise, ...]:
    """Return the exercises of a chapter, by its name or its number.

    Raises:
        BadOption: the chapter has no exercises.
    """
    exercises = tuple(
        e for e in EXERCISES.values() if chapter in (e.chapter, e.chapter.partition("_")[0])
    )
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


Kind = Literal["student", "solution", "nbgrader", "otter"]
Cell = dict[str, Any]


def notebook(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return a notebook of format 4.5 as a JSON object."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    head = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": list(cells), "metadata": head, "nbformat": 4, "nbformat_minor": 5}


def markdown(name: str, text: str) -> Cell:
    """Return a Markdown cell."""
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": text}


def code(name: str, text: str, **metadata: Any) -> Cell:
    """Return a code cell without outputs."""
    head = {"cell_type": "code", "id": name, "metadata": metadata}
    return {**head, "execution_count": None, "outputs": [], "source": text.rstrip("\n")}


def raw(name: str, text: str) -> Cell:
    """Return a raw cell, read by otter."""
    return {"cell_type": "raw", "id": name, "metadata": {}, "source": text}


def cells(e: Exercise, kind: Kind, seed: int = 0) -> list[Cell]:
    """Return the cells of one exercise; hidden checks of other graders draw from `seed`."""
    match kind:
        case "student":
            return [_goal(e), _answer(e, e.stub), *_check_cells(e)]
        case "solution":
            return [_goal(e), _answer(e, e.solution), *_check_cells(e)]
        case "nbgrader":
            return [_goal(e, kind), *_for_nbgrader(e, seed)]
        case "otter":
            return list(_for_otter(e, seed))


def _goal(e: Exercise, kind: Kind = "student") -> Cell:
    """Return the goal; tools that cut the stub out of the solution show it here."""
    points = "1 point" if e.points == 1 else f"{e.points} points"
    head = f"## Exercise: {e.title}"
    if e.is_warm_up:
        head = f"### {e.activity.capitalize()}: {e.title}"
    words = f"*{points}, about {e.minutes} minutes.* {e.goal}"
    if kind in ("nbgrader", "otter") and e.activity != "write":
        words += f"\n\n```python\n{e.stub.rstrip()}\n```"
    return markdown(f"goal-{e.name}", f"{head}\n\n{words}")


def _answer(e: Exercise, text: str) -> Cell:
    return code(f"answer-{e.name}", text, ironworks={"exercise": e.name, "role": "answer"})


def _check_cells(e: Exercise) -> Iterator[Cell]:
    yield code(
        f"check-{e.name}",
        f'from explorer import course\n\ncourse.check("{e.name}", {e.answer})',
    )
    if e.is_warm_up:
        return
    words = f'Stuck? `course.hint("{e.name}")` gives a hint; call it again for the next one.'
    yield markdown(f"hints-{e.name}", words)
    yield markdown(f"exit-{e.name}", f"*Before you go.* {e.exit_question}")


def _solution_lines(e: Exercise) -> Iterator[tuple[bool, str]]:
    """Yield the lines of the solution, each with True if the stub leaves it out."""
    stub, full = e.stub.splitlines(), e.solution.splitlines()
    for kind, _, _, first, last in SequenceMatcher(None, stub, full, False).get_opcodes():
        for line in full[first:last]:
            yield kind != "equal", line


def _mark_solution(e: Exercise, begin: str, end: Sequence[str]) -> str:
    """Return the solution with marks around the student's part.

    The marks have the indent of the first line in between.
    """
    out: list[str] = []
    depth: str | None = None
    for own, line in (*_solution_lines(e), (False, "")):
        own = own or (depth is not None and not line)  # an empty line ends no region
        if own and depth is None and line:
            depth = line[: len(line) - len(line.lstrip())]
            out.append(depth + begin)
        if not own and depth is not None:
            blank = 0
            while not out[-1]:
                out.pop()
                blank += 1
            out += [depth + text for text in end] + [""] * blank
            depth = None
        out.append(line)
    if depth is not None:
        while not out[-1]:
            out.pop()
        out += [depth + text for text in end]
    return "\n".join(out).rstrip("\n") + "\n"


def _expect_call(e: Exercise, number: int, seed: int) -> str:
    more = f", seed={seed}" if e.checks[number].hidden else ""
    return f'course.expect("{e.name}", {e.answer}, {number}{more})'


def _for_nbgrader(e: Exercise, seed: int) -> Iterator[Cell]:
    answer = _answer(e, _mark_solution(e, "### BEGIN SOLUTION", ("### END SOLUTION",)))
    answer["metadata"]["nbgrader"] = _nbgrader(f"answer-{e.name}", solution=True)
    yield answer
    for n, check in enumerate(e.checks):
        test = _expect_call(e, n, seed)
        if check.hidden:
            test = (
                "# Grading runs a check here that you do not see.\n"
                f"### BEGIN HIDDEN TESTS\n{test}\n### END HIDDEN TESTS"
            )
        name = f"test-{e.name}-{n}"
        metadata = _nbgrader(name, points=check.points)
        yield code(name, f"{FRESH_COURSE}\n{test}", nbgrader=metadata)


def _nbgrader(name: str, solution: bool = False, points: int = 0) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "grade": not solution,
        "grade_id": name,
        "locked": not solution,
        "schema_version": 3,
        "solution": solution,
        "task": False,
    }
    return metadata if solution else {**metadata, "points": points}


def _for_otter(e: Exercise, seed: int) -> Iterator[Cell]:
    yield raw(f"begin-{e.name}", f"# BEGIN QUESTION\nname: {e.name}\npoints: {e.points}")
    yield _goal(e, "otter")
    yield raw(f"solution-{e.name}", "# BEGIN SOLUTION")
    ends = ("# END SOLUTION", f'""" # BEGIN PROMPT\n{TODO}\n""" # END PROMPT')
    yield _answer(e, _mark_solution(e, "# BEGIN SOLUTION NO PROMPT", _lines(ends)))
    yield raw(f"solved-{e.name}", "# END SOLUTION")
    yield raw(f"tests-{e.name}", "# BEGIN TESTS")
    for n, check in enumerate(e.checks):
        hidden = str(check.hidden).lower()
        head = f'""" # BEGIN TEST CONFIG\npoints: {check.points}\nhidden: {hidden}\n'
        test = f'{head}""" # END TEST CONFIG\n{FRESH_COURSE}\n{_expect_call(e, n, seed)}'
        yield code(f"test-{e.name}-{n}", test)
    yield raw(f"tested-{e.name}", "# END TESTS")
    yield raw(f"end-{e.name}", "# END QUESTION")


def _lines(ends: Sequence[str]) -> tuple[str, ...]:
    return tuple(line for text in ends for line in text.splitlines())
