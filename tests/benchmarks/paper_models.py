"""Whole models, ours in several variants and in other runtimes, each in a process of its own.

A row goes to a file as soon as it is there, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen
from time import perf_counter_ns
from typing import Any

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.errors import BadOption, Cancelled, IronworksError
from explorer.frontends import zoo
from explorer.measure.compare import checked_seconds
from explorer.measure.turns import Clock, Watcher
from explorer.tuning.compare import check_answers
from explorer.tuning.peers.peer_process import prepare_peers_apart
from explorer.tuning.peers.runtimes import LEAST_SPIN, SPIN_VARIABLE, check_peer_names
from tests.benchmarks.rows import Row, over_peers, parser_of, report, say, timed

OK, NO, BAD, STOPPED = 0, 1, 2, 130
SIZES = {"batch": 1, "seq": 128}  # of symbolic dims, by name; others are at their hints

RowOf = Callable[[str, int, float, Sequence[str]], Row]  # model, threads, seconds, peers


def sizes_of(c: Compilation) -> dict[str, int]:
    """Return the sizes of a compilation's symbolic dims that are not at their hints."""
    return {n: v for n, v in SIZES.items() if n in c.hint}


def inputs_of(c: Compilation) -> dict[str, np.ndarray]:
    """Draw inputs of a model."""
    return {n: np.asarray(a, order="C") for n, a in c.random_inputs(sizes_of(c)).items()}


def model_row(
    ours: Mapping[str, Compilation],
    inputs: Mapping[str, np.ndarray],
    against: Sequence[str],
    seconds: float,
    *,
    base: str | None = None,
    skipped: Mapping[str, str] | None = None,
    details: Mapping[str, Any] | None = None,
    clock: Clock = perf_counter_ns,
    watch: Watcher | None = None,
) -> Row:
    """Compare the answers of compilations of one model and of other runtimes, then time them.

    Raises AnswerMismatch, before anything is timed, where one of them differs from the first
    beyond 1e-4 of the largest answer.
    """
    first = next(iter(ours.values()))
    name, threads = first.model.name, first.options.rammer.threads
    answer = {n: a.copy() for n, a in first.run(inputs).items()}
    errors = {n: check_answers(answer, c.run(inputs), n) for n, c in ours.items()}
    say(f"{name}: loading it into {', '.join(against) or 'nothing else'}")
    with ExitStack() as stack:
        peers, missing = prepare_peers_apart(against, first.model, inputs, threads, stack)
        errors |= {p.name: check_answers(answer, p.run(), p.name) for p in peers}
        say(f"{name}: timing it for {seconds:g} s")
        facts = {
            "threads": threads,
            "seconds": seconds,
            "errors": errors,
            "versions": {p.name: p.version for p in peers},
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        return timed(
            name,
            {n: partial(c.run, inputs) for n, c in ours.items()},
            {p.name: p.run for p in peers},
            seconds,
            clock=clock,
            watch=watch,
            base=base,
            skipped={**(skipped or {}), **missing},
            details=facts | dict(details or {}),
        )


@dataclass(frozen=True, slots=True)
class ModelBench:
    """A benchmark of models, each raced by `row` in a process of its own.

    `module` is the one whose command this is, `columns` are the details that its table shows.
    """

    module: str
    doc: str | None
    models: tuple[str, ...]
    against: tuple[str, ...]
    row: RowOf
    columns: tuple[str, ...]
    summary: Callable[[Sequence[Row]], Mapping[str, object]] = over_peers

    def rows(
        self,
        models: Sequence[str],
        threads: int,
        seconds: float,
        against: Sequence[str],
        partial: Path | None = None,
    ) -> Iterator[Row]:
        """Race models in order; skip a model that cannot be raced, and say so.

        Raises BadOption where the seconds are no time, or a runtime is not known.
        """
        checked_seconds(seconds)
        check_peer_names(against)
        done = _read(partial)
        for n, model in enumerate(models):
            row = done.get((model, threads, seconds))
            if row is None or not {*against} <= {*row.peers, *row.skipped}:
                say(f"{n + 1}/{len(models)} {model}")
                words = ["--threads", str(threads), "--seconds", str(seconds)]
                words += ["--against", ",".join(against), "--one", model]
                written = in_a_process(self.module, words)
                if written is None:
                    say(f"{n + 1}/{len(models)} {model}: left out")
                    continue
                row = Row.from_json(written)
                _append(partial, model, row)
            yield row

    def main(self, arguments: Sequence[str] | None) -> int:
        """Run the command.

        Returns 0, 1 where no model could be raced, 2 for a bad flag, 130 where it was stopped, with
        the finished rows in the partial file.
        """
        flags = self._parser().parse_args(arguments)
        against = tuple(n for n in flags.against.split(",") if n)
        try:
            if flags.one:
                row = self.row(flags.one, flags.threads, flags.seconds, against)
                print(json.dumps(row.to_json()))
                return OK
            models = named(flags.models)
            rows = self.rows(models, flags.threads, flags.seconds, against, flags.partial)
            return OK if report(rows, flags.json, self.columns, self.summary) else NO
        except KeyboardInterrupt:
            say(Cancelled("stopped").sentence)
            return STOPPED
        except IronworksError as problem:
            say(f"{flags.one or self.module}: {problem.sentence}")
            return BAD

    def _parser(self) -> argparse.ArgumentParser:
        parser = parser_of(self.doc, seconds=4.0)
        add = parser.add_argument
        add("--models", default=",".join(self.models), help="names of the zoo, and files")
        add("--threads", type=int, default=2, help="of every runtime (default 2)")
        add("--against", default=",".join(self.against), help="other runtimes")
        add("--partial", type=Path, help="rows are kept here, and not made again")
        add("--one", help=argparse.SUPPRESS)  # this model, here
        return parser


def named(text: str) -> tuple[str, ...]:
    """Parse names of the zoo, with or without zoo:, and files.

    Raises BadOption for any other word.
    """
    models = []
    for part in (p.strip() for p in text.split(",") if p.strip()):
        if Path(part).is_file():
            models.append(part)
            continue
        try:
            models.append(f"{zoo.PREFIX}{zoo.entry(part).name}")
        except BadOption as problem:
            raise BadOption(
                f"{part!r} is no file and no model of the zoo",
                where=part,
                expected=problem.expected,
            ) from problem
    return tuple(models)


def in_a_process(module: str, words: Sequence[str]) -> Mapping[str, Any] | None:
    """Run a module, whose progress goes to stderr, and read the JSON that it prints.

    It ends when this process does. None where it failed.
    """
    env = {SPIN_VARIABLE: LEAST_SPIN, **os.environ}
    with Popen([sys.executable, "-m", module, *words], stdout=PIPE, env=env, text=True) as child:
        try:
            out, _ = child.communicate()
        except BaseException:  # a Ctrl-C too: no child stays
            child.kill()
            raise
    written: Mapping[str, Any] | None = json.loads(out) if child.returncode == 0 else None
    return written


def _read(partial: Path | None) -> dict[tuple[str, int, float], Row]:
    """Read the rows of an earlier run; a line that it did not finish counts as none."""
    rows: dict[tuple[str, int, float], Row] = {}
    if partial is None or not partial.exists():
        return rows
    for text in partial.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
            row = Row.from_json(line["row"])
            rows[line["model"], row.details["threads"], row.details["seconds"]] = row
        except (ValueError, KeyError, TypeError):  # cut off, or of an earlier version
            continue
    return rows


def _append(partial: Path | None, model: str, row: Row) -> None:
    """Append a row; end a line first that a killed run left unfinished."""
    if partial is not None:
        line = json.dumps({"model": model, "row": row.to_json()}) + "\n"
        before = partial.read_bytes() if partial.exists() else b""
        with partial.open("a", encoding="utf-8") as file:
            file.write(line if before[-1:] in (b"", b"\n") else "\n" + line)
