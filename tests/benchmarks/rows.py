"""One form of row for all benchmarks: variants of ours and other runtimes, timed in turns.

`report` prints rows: each in a line on stderr as soon as it is timed, then a table or JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from math import exp, log
from time import perf_counter_ns
from typing import Any

from explorer.measure.compare import Interval, checked_seconds, comparison, measurement, verdict
from explorer.measure.machine import machine
from explorer.measure.turns import Clock, Elsewhere, Series, Watch, Watcher, Work, take_turns
from explorer.plain_text import duration, table

NO_PEER = "no other runtime ran"
THAN = {"faster": "faster than", "slower": "slower than"}
THAN["not distinguishable"] = "not distinguishable from"


@dataclass(frozen=True, slots=True)
class Row:
    """One case. Times are seconds of a call with their 99 % intervals.

    `ratios` are the times of the other variants and of the peers over that of `base`, a variant.
    `skipped` has a reason for each peer that did not run. `details` are values of JSON.
    """

    case: str
    base: str
    variants: Mapping[str, Interval]
    peers: Mapping[str, Interval]
    ratios: Mapping[str, Interval]
    skipped: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fastest_peer(self) -> str | None:
        """The peer of the least median time; None where none ran."""
        return min(self.peers, key=lambda n: self.peers[n].median, default=None)

    @property
    def ratio(self) -> Interval | None:
        """The fastest peer's time over ours; None where none ran."""
        return None if self.fastest_peer is None else self.ratios[self.fastest_peer]

    @property
    def verdict(self) -> str:
        """Say if we are faster or slower than the fastest peer."""
        r = self.ratio
        return NO_PEER if r is None else verdict(r.median, r.low, r.high)

    def to_json(self) -> dict[str, Any]:
        """Return the fields, and the comparison with the fastest peer."""
        ratio = None if self.ratio is None else asdict(self.ratio)
        found = {"fastest_peer": self.fastest_peer, "ratio": ratio, "verdict": self.verdict}
        return asdict(self) | found

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Row:
        """Read a row that `to_json` wrote."""
        values = {f.name: written[f.name] for f in fields(cls)}
        for name in ("variants", "peers", "ratios"):
            values[name] = {n: Interval(**i) for n, i in written[name].items()}
        return cls(**values)


def row_of(
    case: str,
    variants: Mapping[str, Series],
    peers: Mapping[str, Series] | None = None,
    *,
    base: str | None = None,
    skipped: Mapping[str, str] | None = None,
    details: Mapping[str, Any] | None = None,
) -> Row:
    """Return the row of series that were timed in turns; `base` is else the fastest variant."""
    others, ours = peers or {}, {n: _seconds(s) for n, s in variants.items()}
    base = base or min(ours, key=lambda n: ours[n].median)
    ratios = {}
    for name, series in {**variants, **others}.items():
        if name != base:
            c = comparison(variants[base], series)
            ratios[name] = Interval(c.ratio, c.low, c.high)
    theirs = {n: _seconds(s) for n, s in others.items()}
    return Row(case, base, ours, theirs, ratios, dict(skipped or {}), dict(details or {}))


def timed(
    case: str,
    variants: Mapping[str, Work],
    peers: Mapping[str, Work | Elsewhere] | None = None,
    seconds: float = 2.0,
    *,
    clock: Clock = perf_counter_ns,
    watch: Watcher | None = None,
    base: str | None = None,
    skipped: Mapping[str, str] | None = None,
    details: Mapping[str, Any] | None = None,
) -> Row:
    """Time functions in turns, each of which begins when the other threads are at rest."""
    works: dict[str, Work | Elsewhere] = {**variants, **(peers or {})}
    taken = take_turns([*works.values()], checked_seconds(seconds), clock, watch or Watch())
    series = dict(zip(works, taken, strict=True))
    ours, others = ({n: series[n] for n in part} for part in (variants, peers or {}))
    return row_of(case, ours, others, base=base, skipped=skipped, details=details)


def series_of(turns: Iterable[Sequence[float]]) -> Series:
    """Return the series of turns that were timed elsewhere, each a list of seconds per call."""
    return Series(lambda: None, 1, 1, False, 1, [[1e9 * s for s in turn] for turn in turns])


def _seconds(series: Series) -> Interval:
    m = measurement(series)
    return Interval(m.median_us / 1e6, m.low_us / 1e6, m.high_us / 1e6)


def mean(ratios: Iterable[float]) -> float | None:
    """Return the geometric mean; None of no values."""
    logs = [log(r) for r in ratios]
    return exp(sum(logs) / len(logs)) if logs else None


def over_peers(rows: Sequence[Row]) -> dict[str, object]:
    """Summarize the ratios: geometric means, and the cases in which a peer is faster."""
    behind = [r.case for r in rows if r.ratio is not None and r.ratio.median < 1]
    over = mean(r.ratio.median for r in rows if r.ratio is not None)
    found: dict[str, object] = {"rows": len(rows), "over_fastest_peer": over}
    names = dict.fromkeys(n for r in rows for n in r.ratios)
    means = {n: mean(r.ratios[n].median for r in rows if n in r.ratios) for n in names}
    return found | {"under_1": behind, "over": means}


def table_of(rows: Sequence[Row], columns: Sequence[str] = ()) -> str:
    """Print a line for each row: medians, ratios in brackets, and these of its details."""
    ours = [*dict.fromkeys(n for r in rows for n in r.variants)]
    theirs = [*dict.fromkeys(n for r in rows for n in r.peers)]
    head = ("case", *(f">{n}" for n in (*columns, *ours, *theirs)), "against the fastest (99 %)")
    cells = [
        (
            row.case,
            *(_words(row.details.get(n, "")) for n in columns),
            *(_time(row, n) for n in (*ours, *theirs)),
            _against(row),
        )
        for row in rows
    ]
    return table(head, cells, "")


def _time(row: Row, name: str) -> str:
    time = {**row.variants, **row.peers}.get(name)
    if time is None:
        return "-"
    ratio = f" ({row.ratios[name].median:.2f}x)" if name in row.ratios else ""
    return f"{duration(1e6 * time.median)}{ratio}"


def _against(row: Row) -> str:
    """The fastest peer's ratio with its interval; without peers, the fastest other variant's."""
    names = row.peers or row.ratios
    if not names:
        return NO_PEER
    name = min(names, key=lambda n: row.ratios[n].median)
    r = row.ratios[name]
    word = THAN[verdict(r.median, r.low, r.high)]
    return f"{word} {name}: {r.median:.2f}x ({r.low:.2f} to {r.high:.2f})"


def line_of(row: Row, columns: Sequence[str] = ()) -> str:
    """Print a row in one line."""
    times = ", ".join(f"{n} {_time(row, n)}" for n in (*row.variants, *row.peers))
    more = "".join(f"; {n} {_words(row.details[n])}" for n in columns if n in row.details)
    left = "".join(f"; {n} left out: {reason}" for n, reason in row.skipped.items())
    return f"{row.case}: {times}; {_against(row)}{more}{left}"


def report(
    rows: Iterable[Row],
    as_json: bool = False,
    columns: Sequence[str] = (),
    summary: Callable[[Sequence[Row]], Mapping[str, object]] = over_peers,
) -> list[Row]:
    """Print each row on stderr as it comes, and all of them on stdout with their summary."""
    done = []
    for row in rows:
        say(line_of(row, columns))
        done.append(row)
    facts = {"machine": machine().line, **summary(done)}
    if as_json:
        print(json.dumps(facts | {"rows": [r.to_json() for r in done]}, indent=1))
    else:
        print(table_of(done, columns))
        print("\n".join(f"{name}: {_words(value)}" for name, value in facts.items()))
    return done


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{n} {_words(v)}" for n, v in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "; ".join(map(_words, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def say(text: str) -> None:
    """Print progress on stderr."""
    print(text, file=sys.stderr, flush=True)


def numbers(text: str) -> tuple[int, ...]:
    """Parse positive numbers with commas between them, a type of argparse."""
    parts = text.split(",")
    if not all(p.strip().isdecimal() and int(p) > 0 for p in parts):
        raise argparse.ArgumentTypeError(f"positive numbers such as 1,2, not {text!r}")
    return tuple(map(int, parts))


def parser_of(doc: str | None, threads: str = "", seconds: float = 0.0) -> argparse.ArgumentParser:
    """Return a parser whose help is the module's; with the flags that most benchmarks have."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=doc, formatter_class=layout)
    if threads:
        parser.add_argument("--threads", type=numbers, default=threads, help="such as 1,2")
    if seconds:
        help = "of turns for each row, at least"
        parser.add_argument("--seconds", type=float, default=seconds, help=help)
        parser.add_argument("--json", action="store_true", help="print everything as JSON")
    return parser
