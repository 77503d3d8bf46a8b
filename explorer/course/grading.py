"""Grades of notebooks that were handed in: a line for each student, whatever an answer does.

Each exercise is judged in two processes. The judge has the seed and never runs the student's code.
The helper (`fork_server`) runs it in a jail, and sends plain values. Both have limits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from explorer.course.checking import (
    Verdict,
    report_checks,
    verdict_of,
    verdict_without_answer,
)
from explorer.course.exercise import Exercise, Wrong
from explorer.course.exercises import EXERCISES
from explorer.course.fork_server import HelperServer
from explorer.errors import BadOption, printable
from explorer.process.allowance import cores
from explorer.process.sandbox import Ended, in_helper

MOST_BYTES = 1 << 24  # limit of a submitted notebook; chosen
JUDGE_SECONDS = 3.0  # for the judge, beyond the limit of the answer; chosen
LONGEST_CHARACTERS = 400  # of a message in the report; chosen
CHECKPOINTS = ".ipynb_checkpoints"
OPEN_WARNING = (
    "warning: this machine has no Linux namespaces, so answers could read and change files of "
    "this user: grade in a container"
)

Grade = dict[str, Any]
Progress = Callable[[int, int, Grade], None]


def notebooks_in(paths: Sequence[Path]) -> list[Path]:
    """Return the notebooks, those of folders and their sub-folders included, in order.

    Raises:
        BadOption: a folder has none.
    """
    notebooks: list[Path] = []
    for path in paths:
        inside = [p for p in path.rglob("*.ipynb") if CHECKPOINTS not in p.parts and not p.is_dir()]
        if path.is_dir() and not inside:
            raise BadOption(f"{path} has no notebook", where=str(path))
        notebooks += sorted(inside) if path.is_dir() else [path]
    return notebooks


def grade_notebooks(
    paths: Sequence[Path], seed: int, progress: Progress | None = None, jobs: int = 0
) -> list[Grade]:
    """Grade notebooks, `jobs` at once (0: as many as there are cores).

    `progress` is called with each grade, in the order of the paths.
    """
    with HelperServer() as server:
        return grade_notebooks_by(server, paths, seed, progress, jobs)


def grade_notebooks_by(
    server: HelperServer,
    paths: Sequence[Path],
    seed: int,
    progress: Progress | None = None,
    jobs: int = 0,
) -> list[Grade]:
    """Grade notebooks with helpers of a server that is running."""
    grades: list[Grade] = []
    threads = ThreadPoolExecutor(jobs or cores())
    try:
        for grade in threads.map(lambda path: grade_notebook(path, seed, server), paths):
            grades.append(grade)
            if progress is not None:
                progress(len(grades), len(paths), grade)
    finally:
        threads.shutdown(cancel_futures=True)
    return grades


def grade_notebook(path: Path, seed: int, server: HelperServer) -> Grade:
    """Grade a notebook: a verdict for each exercise of its chapters.

    Only answer cells run. A notebook that cannot be graded has a `problem` and no points.
    """
    problem, verdicts = "", list[Verdict]()
    try:
        cells = answers(path)
        verdicts = [
            grade_answer(EXERCISES[name], cells[name], seed, server)
            if name in cells
            else verdict_without_answer(name)
            for name in _exercises_of(cells)
        ]
    except BadOption as refusal:
        problem = refusal.sentence
    except Exception as fault:  # one notebook never ends the grading of the others
        problem = f"it could not be graded: {type(fault).__name__}: {fault}"
    rows = [v.as_json() for v in verdicts]
    points, of = (sum(row[key] for row in rows) for key in ("points", "of"))
    return {
        "submission": str(path),
        "points": points,
        "of": of,
        "problem": printable(problem),
        "seed": seed,
        "jailed": server.is_jailed,
        "exercises": rows,
    }


def _exercises_of(cells: Mapping[str, str]) -> list[str]:
    """Return the exercises of all chapters that a notebook has an answer of."""
    chapters = {EXERCISES[name].chapter for name in cells}
    return [e.name for e in EXERCISES.values() if e.chapter in chapters]


def answers(path: Path) -> Mapping[str, str]:
    """Return the answer cells of a notebook by exercise.

    Raises:
        BadOption: the file is no notebook, or has no answer cell.
    """
    try:
        if not path.is_file():
            raise ValueError("there is no such file")
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise ValueError("it is larger than 16 MiB")
        notebook_cells = json.loads(text.decode("utf-8"))["cells"]
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
    own = cell.get("metadata", {}).get("ironworks", {})
    name = own.get("exercise", "") or str(cell.get("id", "")).removeprefix("answer-")
    source = cell.get("source", "")
    text = source if isinstance(source, str) else "".join(source)
    return [(name, text)] if name in EXERCISES and cell.get("cell_type") == "code" else []


def grade_answer(e: Exercise, source: str, seed: int, server: HelperServer) -> Verdict:
    """Run the cell of an answer in a helper, and judge what it sends in a process of its own.

    The stub as it was handed out earns nothing, and needs no process.
    """
    if source.split() == e.stub.split():
        return verdict_without_answer(e.name)

    def judge(report: Callable[[str], None]) -> None:
        answer = server.open(e)
        try:
            answer.load(e.name, source)
            report(json.dumps(("loaded", "")))
            report_checks(answer, e.checks, seed, report)
        except NotImplementedError:
            report(json.dumps(("not attempted", "")))
        except Wrong as wrong:
            report(json.dumps(("refused", str(wrong))))
        except Ended as ended:
            report(json.dumps(("ended", ended.why)))
        finally:
            answer.close()

    wall_seconds = e.limits.most_wall_seconds + JUDGE_SECONDS
    limits = replace(e.limits, wall_seconds=wall_seconds)
    try:
        reported, why = in_helper(judge, limits), ""
    except Ended as ended:
        reported, why = ended.reported, f"its judging {ended.why}"
    return _verdict(e, reported, why)


def _verdict(e: Exercise, reported: Sequence[str], why: str) -> Verdict:
    """Return the verdict of a judge's lines: the cell, each check, and how the answer ended."""
    lines = [json.loads(text) for text in reported]
    match lines:
        case []:
            return verdict_without_answer(e.name, why)
        case [["not attempted", _]]:
            return verdict_without_answer(e.name)
        case [["refused", str(sentence)]]:
            return verdict_without_answer(e.name, sentence)
        case [["ended", str(how)]]:
            return verdict_without_answer(e.name, f"the cell {how}")
        case [*_, ["ended", str(how)]]:
            lines.pop()
            why = f"it {how}"
    return verdict_of(e, e.checks, [json.dumps(line) for line in lines[1:]], why)


def table(grades: Sequence[Grade], seed: int) -> str:
    """Format grades as lines of text."""
    lines = [f"seed of the hidden checks: {seed}"]
    if not all(g["jailed"] for g in grades):
        lines.append(OPEN_WARNING)
    for submission in grades:
        name = printable(submission["submission"])
        if submission["problem"]:
            lines.append(f"{name}: not graded: {submission['problem']}")
            continue
        lines.append(f"{name}: {submission['points']} of {submission['of']} points")
        for e in submission["exercises"]:
            lines.append(f"  {e['exercise']}: {e['outcome']}, {e['points']} of {e['of']}")
            lines += [
                f"    {c['words']}: {printable(c['message'], LONGEST_CHARACTERS)}"
                for c in e["checks"]
                if c["message"]
            ]
    return "\n".join(lines)
