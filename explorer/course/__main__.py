"""`python -m explorer.course`: assignments, their grades, challenges and work logs."""

from __future__ import annotations

import json
import os
import secrets
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from explorer.course import challenge
from explorer.course.assignment import chapter_exercises, write_assignment
from explorer.course.exercises import EXERCISES
from explorer.course.exports import (
    select_chapter,
    write_autograder,
    write_gradebook,
    write_results,
)
from explorer.course.grading import grade_notebooks, notebooks_in, table
from explorer.course.log_chain import verify_log
from explorer.course.rerun import rerun
from explorer.course.worklog_template import write_template
from explorer.errors import BadOption, IronworksError, printable
from explorer.process.sandbox_jail import erase_arguments, protect_memory

NO = 1  # an entry is refused or refuted
SEED_BITS = 64  # too many to try while an answer runs; chosen
KINDS = ("student", "solution", "nbgrader", "otter", "gradescope")
BAD = 2  # bad usage or input, as for `ironworks`


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; an error is one line on stderr."""
    parser = ArgumentParser("python -m explorer.course", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="every exercise, its chapter, its points and its minutes")
    build = commands.add_parser("build", help="the exercises of a chapter as a notebook")
    build.add_argument("chapter", help="06_schedules, or 06")
    build.add_argument("--as", dest="kind", default="student", choices=KINDS)
    build.add_argument("-o", "--output", type=Path, default=Path("."), metavar="FOLDER")
    seed_help = "of hidden checks; drawn unless it is stated"
    build.add_argument("--seed", type=int, help=seed_help)
    grade = commands.add_parser("grade", help="points of notebooks that were handed in")
    grade.add_argument("notebooks", nargs="+", type=Path, help="notebooks, or folders of them")
    grade.add_argument("--seed", type=int, help=f"{seed_help}, and printed")
    grade.add_argument("--jobs", type=int, default=0, help="at once; 0: as many as cores")
    grade.add_argument("--json", action="store_true")
    grade.add_argument("--chapter", help="count only the exercises of this one")
    grade.add_argument(
        "--csv", type=Path, metavar="FILE", help="write a gradebook that Canvas imports"
    )
    results_help = "write Gradescope's results.json of each student; to FILE.json: of one"
    grade.add_argument("--results", type=Path, metavar="FOLDER", help=results_help)
    commands.add_parser("challenges", help="every challenge: its model and its machine")
    entries = commands.add_parser("verify", help="entries of challenges, compiled and scored again")
    entries.add_argument("entries", nargs="+", type=Path)
    entries.add_argument("--seconds", type=float, default=0.5, help="for the clock; 0 asks it not")
    log = commands.add_parser("worklog", help="a student's work log: its entries and its chain")
    log.add_argument("log", nargs="?", type=Path, metavar="FILE")
    log.add_argument("--rerun", action="store_true", help="compile and time its programs again")
    log.add_argument(
        "--model", action="append", default=[], help="of the log, where it is not of the zoo"
    )
    log.add_argument("--seconds", type=float, default=1.0, help="for each measurement")
    log.add_argument("--template", type=Path, metavar="FILE", help="write an assignment to FILE")
    flags = parser.parse_args(arguments)
    if getattr(flags, "seed", 0) is None:
        flags.seed = secrets.randbits(SEED_BITS)
    if arguments is None and flags.command == "grade":
        erase_arguments()  # they may hold the seed, and helpers may see those of other processes
        protect_memory()
    try:
        code = _run(flags)
        sys.stdout.flush()
        return code
    except IronworksError as problem:
        print(problem.sentence, file=sys.stderr)
        return BAD
    except BrokenPipeError:  # the reader has gone, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO


def _run(flags: Namespace) -> int:
    """Run the command that was named and return its exit code."""
    if flags.command == "list":
        for e in EXERCISES.values():
            size = f"{e.points} points, {e.minutes} min"
            print(f"{e.chapter:18} {e.name:20} {size:18} {e.title}")
    elif flags.command == "build" and flags.kind == "gradescope":
        print(write_autograder(flags.chapter, flags.output))
    elif flags.command == "build":
        print(write_assignment(flags.chapter, flags.kind, flags.output, flags.seed))
    elif flags.command == "challenges":
        for c in challenge.CHALLENGES.values():
            print(f"{c.name:6} {c.model} on {c.target}: {c.title}")
    elif flags.command == "verify":
        verified = [challenge.verify(path, flags.seconds) for path in flags.entries]
        print(challenge.table(verified))
        return NO if any(e.refused for e in verified) else 0
    elif flags.command == "worklog":
        return _worklog(flags)
    else:
        return _grade(flags)
    return 0


def _grade(flags: Namespace) -> int:
    """Grade notebooks, print and export their points, and return 1 if one could not be read."""
    if flags.chapter:
        chapter_exercises(flags.chapter)  # before hours of grading
    paths = notebooks_in(flags.notebooks)
    progress = sys.stderr.isatty() or len(paths) > 1
    show = _print_progress if progress else None
    grades = grade_notebooks(paths, flags.seed, show, max(0, flags.jobs))
    if flags.chapter:
        grades = select_chapter(grades, flags.chapter)
    print(json.dumps(grades, indent=1) if flags.json else table(grades, flags.seed))
    if flags.csv:
        write_gradebook(grades, flags.notebooks, flags.csv)
    if flags.results:
        write_results(grades, flags.notebooks, flags.results)
    return NO if any(g["problem"] for g in grades) else 0


def _print_progress(number: int, count: int, grade: dict[str, Any]) -> None:
    points = grade["problem"] or f"{grade['points']} of {grade['of']} points"
    print(printable(f"{number} of {count}: {grade['submission']}: {points}"), file=sys.stderr)


def _worklog(flags: Namespace) -> int:
    """Write the template, or print a work log, its chain and its re-run."""
    if (flags.log is None) == (flags.template is None):
        raise BadOption("worklog takes a FILE, or --template and a FILE")
    if flags.template is not None:
        print(write_template(flags.template))
        return 0
    chain = verify_log(flags.log)
    for entry in chain.entries:
        print(entry)
    if chain.fault:
        print(f"chain: {chain.fault}")
        return NO
    print(f"chain: {len(chain.entries)} entries as written; last hash {chain.last_hash}")
    if not flags.rerun:
        return 0
    rows = rerun(chain.entries, flags.model, flags.seconds)
    print("\n".join(map(str, rows)) or "nothing to compile again")
    return NO if any(row.refuted for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
