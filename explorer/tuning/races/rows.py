"""The rows of a race: each made in a process of its own, and kept in a file as it is made, so that
a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from explorer.errors import BadOption, Cancelled, IronworksError
from explorer.frontends import zoo
from explorer.measure.compare import checked_seconds
from explorer.measure.machine import machine
from explorer.tuning.peers.runtimes import LEAST_SPIN, SPIN_VARIABLE, known_peers
from explorer.tuning.races.timed import Ratio

OK, NO, BAD, STOPPED = 0, 1, 2, 130

Say = Callable[[str], object]


class Row(Protocol):
    """A model that was raced. `seconds` are those that were asked for, `against` has the runtimes
    that took part, and `skipped` those that did not. `ratio` is the fastest other's time over ours.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def threads(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def against(self) -> Mapping[str, Any]: ...
    @property
    def skipped(self) -> Mapping[str, str]: ...
    @property
    def model(self) -> str: ...
    @property
    def fastest_other(self) -> str: ...
    @property
    def ratio(self) -> Ratio | None: ...


R = TypeVar("R", bound=Row)


@dataclass(frozen=True, slots=True)
class Race(Generic[R]):
    """One kind of race: `module` makes a row and prints it as JSON, `read` reads it again, `line`
    tells it, and `summary` tells of all.
    """

    name: str
    module: str
    models: tuple[str, ...]
    against: tuple[str, ...]
    read: Callable[[Mapping[str, Any]], R]
    line: Callable[[R], str]
    summary: Callable[[Sequence[R]], dict[str, object]]

    def rows(
        self,
        models: Sequence[str],
        threads: int,
        seconds: float,
        say: Say,
        against: Sequence[str],
        partial: Path | None = None,
    ) -> Iterator[R]:
        """The rows of models, in order; a model that cannot be raced is told of and left out.

        Raises BadOption where the seconds are no time, or a runtime is not known.
        """
        checked_seconds(seconds)
        known_peers(against)
        done = self._kept(partial)
        for n, model in enumerate(models):
            row = done.get((model, threads, seconds))
            if row is None or not set(against) <= {*row.against, *row.skipped}:
                say(f"{n + 1}/{len(models)} {model}")
                words = [model, "--threads", str(threads), "--seconds", str(seconds)]
                made = in_a_process(self.module, [*words, "--against", ",".join(against)])
                if made is None:
                    say(f"{n + 1}/{len(models)} {model}: left out")
                    continue
                row = self.read(made)
                _keep(partial, model, row)
            say(f"{n + 1}/{len(models)} {self.line(row)}")
            yield row

    def _kept(self, partial: Path | None) -> dict[tuple[str, int, float], R]:
        """What an earlier run had come to; a line that it did not finish is made again."""
        found: dict[tuple[str, int, float], R] = {}
        if partial is None or not partial.exists():
            return found
        for text in partial.read_text(encoding="utf-8").splitlines():
            try:
                kept = json.loads(text)
                row = self.read(kept["row"])
            except (ValueError, KeyError, TypeError):  # cut off, or of an earlier version
                continue
            found[kept["asked"], row.threads, row.seconds] = row
        return found

    def main(self, given: Sequence[str] | None) -> int:
        """The command: 0, 1 where no model could be raced, 2 for a bad flag, 130 where it was
        stopped, with what was finished in the partial file.
        """
        flags = self._parser().parse_args(given)
        rows: list[R] = []
        try:
            models, against = named(flags.models), [n for n in flags.against.split(",") if n]
            asked = (models, flags.threads, flags.seconds, say, against, flags.partial)
            for row in self.rows(*asked):
                rows.append(row)
        except KeyboardInterrupt:
            say(f"{self.name}: {Cancelled('stopped').sentence}")
            return STOPPED
        except IronworksError as problem:
            say(f"{self.name}: {problem.sentence}")
            return BAD
        if flags.json:
            print(json.dumps(self.to_json(rows), indent=1))
        else:
            print("\n".join((*map(self.line, rows), json.dumps(self.summary(rows)))))
        return OK if rows else NO

    def to_json(self, rows: Sequence[R]) -> dict[str, object]:
        """What `--json` prints."""
        told = [fields(r) for r in rows]
        return {"machine": machine().line, "rows": told, **self.summary(rows)}

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(prog=f"python -m explorer.tuning.{self.name}")
        add = parser.add_argument
        add("--models", default=",".join(self.models), help="names of the zoo, and files")
        add("--threads", type=int, default=2, help="of every runtime (default 2)")
        add("--seconds", type=float, default=4.0, help="of turns a model, at least")
        add("--against", default=",".join(self.against), help="other runtimes")
        add("--partial", type=Path, help="rows are kept here, and not made again")
        add("--json", action="store_true", help="print everything as JSON")
        return parser


def named(text: str) -> tuple[str, ...]:
    """Names of the zoo, with or without zoo:, and files.

    Raises BadOption for what is neither.
    """
    found = []
    for part in (p.strip() for p in text.split(",") if p.strip()):
        if Path(part).is_file():
            found.append(part)
            continue
        try:
            found.append(f"{zoo.PREFIX}{zoo.entry(part).name}")
        except BadOption as problem:
            raise BadOption(
                f"{part!r} is no file and no model of the zoo",
                where=part,
                expected=problem.expected,
            ) from problem
    return tuple(found)


def in_a_process(module: str, words: Sequence[str]) -> Mapping[str, Any] | None:
    """What the module prints, from a process that tells of its progress itself; it ends when this
    one does. None where it could not race.
    """
    given = {SPIN_VARIABLE: LEAST_SPIN, **os.environ}
    with Popen([sys.executable, "-m", module, *words], stdout=PIPE, env=given, text=True) as child:
        try:
            out, _ = child.communicate()
        except BaseException:  # a Ctrl-C too: no child stays
            child.kill()
            raise
    found: Mapping[str, Any] | None = json.loads(out) if child.returncode == 0 else None
    return found


def print_row(
    module: str, make: Callable[..., Row], against: Sequence[str], given: Sequence[str] | None
) -> int:
    """The command that makes one row: exit 0, or 2 with one line where the model cannot race."""
    parser = argparse.ArgumentParser(prog=f"python -m explorer.tuning.{module}")
    parser.add_argument("model", help="an ONNX file, or zoo:NAME")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0, help="in turns, at least")
    parser.add_argument("--against", default=",".join(against), help="other runtimes")
    flags = parser.parse_args(given)
    try:
        others = tuple(n for n in flags.against.split(",") if n)
        row = make(flags.model, flags.threads, flags.seconds, say, others)
    except IronworksError as problem:
        print(f"{Path(flags.model).name}: {problem.sentence}", file=sys.stderr)
        return BAD
    print(json.dumps(asdict(row)))
    return OK


def fields(row: Row) -> dict[str, object]:
    """A row as `--json` has it."""
    best = row.ratio
    return asdict(row) | {
        "fastest_other": row.fastest_other or None,
        "ratio": None if best is None else asdict(best),
    }


def over_others(rows: Sequence[Row]) -> dict[str, object]:
    """The geometric mean of the races, and where we are behind."""
    races = {r.model: r.ratio.ratio for r in rows if r.ratio is not None}
    return {
        "models": len(rows),
        "over_fastest_other": mean(races),
        "under_1": sorted(n for n, ratio in races.items() if ratio < 1),
    }


def mean(ratios: Mapping[str, float]) -> float | None:
    """The geometric mean; None of nothing."""
    return exp(sum(map(log, ratios.values())) / len(ratios)) if ratios else None


def say(text: str) -> None:
    """Tell of progress."""
    print(text, file=sys.stderr, flush=True)


def _keep(partial: Path | None, model: str, row: Row) -> None:
    """Append a row; a line that a killed run left unfinished is ended first."""
    if partial is not None:
        line = json.dumps({"asked": model, "row": asdict(row)}) + "\n"
        kept = partial.read_bytes() if partial.exists() else b""
        with partial.open("a", encoding="utf-8") as file:
            file.write(line if kept[-1:] in (b"", b"\n") else "\n" + line)
