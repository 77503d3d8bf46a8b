"""Rates at which the course's checks accept wrong answers and refuse right ones.

    python -m tests.benchmarks exercise_rates [--seeds 2000] [--exercise NAME] [--jobs 1]

The answers are the worked solutions and those of `tests/course/answers.py`. Each is created once,
in a process of its own, and judged as grading judges it, for seeds of as many bits as grading
draws. A right answer is refused at a seed if it does not get all points there, and a wrong one is
accepted if it does. A check that never reads its seed runs once for each answer: a wrong answer
that it refuses is refused at every seed. An answer is left when `--seconds` have passed or when
`HOPELESS` seeds were judged wrongly; the table has the seeds that were run. Ctrl-C prints what
there is. The exit status is 1 if any seed was judged wrongly.
"""

from __future__ import annotations

import argparse
import dis
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import comb
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter

from explorer.course.__main__ import SEED_BITS
from explorer.course.answer import LocalAnswer
from explorer.course.checking import report_checks, verdict_of
from explorer.course.exercise import Check, Exercise
from explorer.course.exercises import EXERCISES, random_programs
from explorer.plain_text import table
from tests.course.answers import RIGHT, WRONG, made

LARGE = tuple(name for name, e in EXERCISES.items() if not e.is_warm_up)
HOPELESS = 10  # judged wrongly: of 2,000 seeds, five times the rate that is allowed
CONFIDENCE = 0.95
REPORT_SECONDS = 0.5  # between two messages of a process


@dataclass(frozen=True, slots=True)
class Case:
    """A prepared answer of an exercise."""

    exercise: str
    is_right: bool
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Tally:
    """How often an answer was judged, and how often wrongly.

    `is_fixed`: no check that decided read its seed, so the judgement holds for every seed.
    """

    seeds: int = 0
    faults: int = 0
    seconds: float = 0.0
    is_fixed: bool = False
    example: str = ""

    @property
    def upper(self) -> float:
        """The upper end of the interval of the rate."""
        return 0.0 if self.is_fixed and not self.faults else upper_end(self.faults, self.seeds)


def cases(exercise: str) -> Iterator[Case]:
    """Yield the prepared answers of an exercise."""
    yield Case(exercise, True, "the worked solution", EXERCISES[exercise].solution)
    for name, text in RIGHT.get(exercise, {}).items():
        yield Case(exercise, True, name, text)
    for name, (text, _) in WRONG[exercise].items():
        yield Case(exercise, False, name, text)


def upper_end(faults: int, runs: int) -> float:
    """Return the upper end of the one-sided Clopper-Pearson interval: 3 / runs without faults."""
    if faults >= runs:
        return 1.0
    low, high = faults / runs, 1.0
    for _ in range(60):
        p = (low + high) / 2
        tail = sum(comb(runs, k) * p**k * (1 - p) ** (runs - k) for k in range(faults + 1))
        low, high = (p, high) if tail > 1 - CONFIDENCE else (low, p)
    return high


def reads_seed(check: Check) -> bool:
    """Return True unless the code of a check never names its second parameter."""
    code = check.judge.__code__
    name = code.co_varnames[1]
    named = [i.argval for i in dis.get_instructions(code)]
    return any(n == name or (isinstance(n, tuple) and name in n) for n in named)


def judged(e: Exercise, answer: LocalAnswer, checks: Sequence[Check], seed: int) -> str:
    """Return the sentence of the first check that an answer fails at a seed, or ''."""
    for check in checks:
        lines: list[str] = []
        report_checks(answer, [check], seed, lines.append)
        verdict = verdict_of(e, [check], lines)
        if verdict.points < verdict.of:
            return f"{check.words}: {verdict.results[0].message or verdict.outcome}"
    return ""


def tallies(case: Case, seeds: int, seconds: float, folder: Path) -> Iterator[Tally]:
    """Yield the tally of an answer after each seed."""
    e, begin = EXERCISES[case.exercise], perf_counter()
    random_programs.smallest = lambda answer, after, broken, why, seed: (broken, why)
    answer = LocalAnswer(made(folder, case.exercise, case.text))
    fixed = [c for c in e.checks if not reads_seed(c)]
    drawn = [c for c in e.checks if reads_seed(c)]
    why = judged(e, answer, fixed, 0)
    tally = Tally(1, int(case.is_right and bool(why)), perf_counter() - begin, True, why)
    if why or not drawn:
        yield replace(tally, faults=int(case.is_right == bool(why)))
        return
    rng = Random(0)
    tally = Tally()
    while tally.seeds < seeds and tally.faults < HOPELESS and tally.seconds < seconds:
        seed = rng.getrandbits(SEED_BITS)
        why = judged(e, answer, drawn, seed)
        if why and not case.is_right:  # a check that refuses once probably refuses again
            words = why.partition(": ")[0]
            drawn.sort(key=lambda c: c.words != words)
        fault = case.is_right == bool(why)
        tally = Tally(
            tally.seeds + 1,
            tally.faults + fault,
            perf_counter() - begin,
            example=tally.example or (f"seed {seed}: {why}" if fault else ""),
        )
        yield tally


def _send_tallies(
    case: Case, seeds: int, seconds: float, folder: Path, connection: Connection
) -> None:
    sent = 0.0
    tally = Tally()
    try:
        for tally in tallies(case, seeds, seconds, folder):
            if tally.seconds - sent > REPORT_SECONDS:
                connection.send(tally)
                sent = tally.seconds
        connection.send(tally)
    except KeyboardInterrupt:
        connection.send(tally)


def run(
    every: Sequence[Case], seeds: int, seconds: float, jobs: int, results: dict[Case, Tally]
) -> None:
    """Fill in the tally of each answer; each has a process, `jobs` of them at a time."""
    context = multiprocessing.get_context("fork")
    pending, running = list(every), dict[Connection, tuple[Case, multiprocessing.Process]]()
    with TemporaryDirectory() as folder:
        while pending or running:
            while pending and len(running) < jobs:
                case = pending.pop(0)
                here, there = context.Pipe(duplex=False)
                own = Path(folder, str(len(pending)))
                own.mkdir()
                process = context.Process(
                    target=_send_tallies, args=(case, seeds, seconds, own, there)
                )
                process.start()
                there.close()
                running[here] = (case, process)
            for here in wait(list(running)):
                case, process = running[here]
                try:
                    results[case] = here.recv()
                except EOFError:
                    process.join()
                    del running[here]
                    print(line(case, results.get(case, Tally())), flush=True)


def line(case: Case, tally: Tally) -> str:
    """Return the progress line of an answer."""
    kind = "right" if case.is_right else "wrong"
    fault = f"{tally.faults} judged wrongly of {tally.seeds}, {tally.seconds:.1f} s"
    return f"{case.exercise}, {kind}, {case.name}: {fault} {tally.example[:300]}".rstrip()


def main(words: Sequence[str] | None = None) -> int:
    """Print the rates of each answer, and those of each exercise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=2000)
    every_large = "all large ones unless it is stated; may be stated several times"
    parser.add_argument("--exercise", choices=LARGE, action="append", help=every_large)
    parser.add_argument("--answer", default="", help="only answers with this in their names")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seconds", type=float, default=600.0, help="the most for one answer")
    flags = parser.parse_args(words)
    every = [c for name in flags.exercise or LARGE for c in cases(name) if flags.answer in c.name]
    results: dict[Case, Tally] = {}
    try:
        run(every, flags.seeds, flags.seconds, flags.jobs, results)
    except KeyboardInterrupt:
        print("interrupted")
    print(of_answers(results))
    print()
    print(of_exercises(results))
    return int(any(t.faults for t in results.values()))


def of_answers(results: dict[Case, Tally]) -> str:
    """Return the table with a row for each answer."""
    head = ("exercise", "", "answer", ">seeds", ">judged wrongly", ">at most, 95 %", ">seconds")
    rows = [
        (
            c.exercise,
            "right" if c.is_right else "wrong",
            c.name,
            "any" if t.is_fixed else f"{t.seeds:,}",
            str(t.faults),
            f"{t.upper:.2%}",
            f"{t.seconds:.1f}",
        )
        for c, t in results.items()
    ]
    return table(head, rows)


def of_exercises(results: dict[Case, Tally]) -> str:
    """Return the table with a row for each exercise: its answers taken together."""
    head = ("exercise", ">right", ">refused", ">at most", ">wrong", ">accepted", ">at most")
    rows = []
    for name in dict.fromkeys(c.exercise for c in results):
        row = [name]
        for is_right in (True, False):
            mine = [t for c, t in results.items() if (c.exercise, c.is_right) == (name, is_right)]
            drawn = [t for t in mine if not t.is_fixed]
            runs, faults = sum(t.seeds for t in drawn), sum(t.faults for t in mine)
            upper = max((t.upper for t in mine), default=0.0)
            if drawn:
                upper = upper_end(sum(t.faults for t in drawn), runs)
            row += [str(len(mine)), f"{faults} of {runs:,}", f"{upper:.2%}"]
        rows.append(row)
    return table(head, rows)


if __name__ == "__main__":
    sys.exit(main())
