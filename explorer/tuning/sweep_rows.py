"""Points of a sweep's grid, their rows with the card of a machine, and the store of rows.

The store is a SQLite file with one transaction a row: a stopped sweep resumes from it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields
from itertools import product
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

from explorer.cache import content_key
from explorer.compiler.options import Options
from explorer.compiler.pipeline import device_of
from explorer.devices.catalogue import HERE
from explorer.errors import BadOption, BoundError
from explorer.frontends.model import Model
from explorer.measure.machine import machine
from explorer.passes.fingerprint import device_key
from explorer.stored.program_key import compiler_key
from explorer.tuning.settings import apply

MEASURED, SIMULATED, FAILED = "measured", "simulated", "failed"
BIND = "bind."  # prefix of the names of symbolic dims
KINDS = (MEASURED, SIMULATED, FAILED)
SQL_TABLE = "ironworks_rows"
SQL_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {SQL_TABLE} "
    "(key TEXT NOT NULL, machine TEXT NOT NULL, row TEXT NOT NULL, PRIMARY KEY (key, machine))"
)
WAIT_SECONDS = 30.0  # for another sweep that writes to the same file; chosen
TARGET = "target"
MOST_POINTS = 100_000  # of one sweep; chosen
KEY_FORMAT = "sweep-1"


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One combination: `varied` are the names and texts that its row shows."""

    target: str
    settings: tuple[str, ...]
    sizes: tuple[tuple[str, int], ...]
    varied: tuple[tuple[str, str], ...]

    def key(self, model: str) -> str:
        """Return 256 bits of digest over the model, the compiler's code and all settings."""
        sheet = "" if self.target in HERE else device_key(device_of(self.target))
        sizes = (f"{name}={size}" for name, size in sorted(self.sizes))
        parts = (self.target, sheet, *sorted(self.settings), "", *sizes)
        return content_key(KEY_FORMAT, model, compiler_key(), *parts)


def points(
    model: Model, vary: Mapping[str, Sequence[Any]], target: str, sizes: Mapping[str, int]
) -> tuple[SweepPoint, ...]:
    """Return every combination.

    Axes that change least of a compilation vary fastest: sizes, then the options of late systems.
    `sizes` are those of symbols that do not vary.

    Raises:
        BadOption: a name is no option, symbol or "target", or does not take a value.
    """
    axes = [_axis(model, name, values) for name, values in vary.items()]
    axes.sort(key=lambda axis: axis.order)
    if not axes:
        raise BadOption(
            "a sweep needs something to vary", where="vary", try_='{"roller.top_k": [1, 10]}'
        )
    count = 1
    for axis in axes:
        count *= len(axis.texts)
    if count > MOST_POINTS:
        raise BadOption(
            f"{count:,} combinations are more than a sweep takes",
            where="vary",
            expected=f"at most {MOST_POINTS:,}",
        )
    return tuple(_point(axes, texts, target, sizes) for texts in product(*(a.texts for a in axes)))


def axes_of(grid: Sequence[SweepPoint]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the varied names, slowest first, each with its values."""
    axes: dict[str, dict[str, None]] = {}
    for point in grid:
        for name, text in point.varied:
            axes.setdefault(name, {})[text] = None
    return tuple((name, tuple(texts)) for name, texts in axes.items())


@dataclass(frozen=True, slots=True)
class _Axis:
    name: str
    texts: tuple[str, ...]
    order: tuple[int, str]


def _axis(model: Model, name: str, values: Sequence[Any]) -> _Axis:
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise BadOption(f"{name} is varied over a list of values", where=name, actual=repr(values))
    texts = tuple(dict.fromkeys(map(_setting_text, values)))
    symbols = model.program.env.hints
    bare = name.removeprefix(BIND)
    if bare in symbols:
        _check_bounds(model, bare, texts)
        return _Axis(f"{BIND}{bare}", texts, (len(fields(Options)), bare))
    if name == TARGET:
        for text in texts:
            device_of(text)
        return _Axis(name, texts, (-1, ""))
    if "." not in name or bare != name:
        raise BadOption(
            f"there is nothing to vary named {name!r}",
            where=name,
            expected=", ".join((TARGET, "group.option", *(f"{BIND}{s}" for s in symbols))),
        )
    for text in texts:
        apply(Options().entered, [f"{name}={text}"], "--vary")
    groups = [f.name for f in fields(Options)]
    group = name.partition(".")[0]
    return _Axis(name, texts, (groups.index(group) if group in groups else 0, name))


def _setting_text(value: Any) -> str:
    """Return a value in the form of `--set`."""
    if isinstance(value, tuple | list):
        return ",".join(map(_setting_text, value))
    return str(value)


def _check_bounds(model: Model, name: str, texts: Sequence[str]) -> None:
    limits = model.program.env.of(name)
    for text in texts:
        most = int(text) if limits.high is None and text.isdecimal() else limits.high
        if not text.isdecimal() or not limits.low <= int(text) <= (most or 0):
            allowed = f"{limits.low} {'or more' if limits.high is None else f'to {limits.high}'}"
            raise BoundError(
                f"{name} is {allowed}, and cannot be {text!r}",
                where=f"{BIND}{name}",
                expected=allowed,
                actual=text,
            )


def _point(
    axes: Sequence[_Axis], texts: Sequence[str], target: str, sizes: Mapping[str, int]
) -> SweepPoint:
    varied = tuple((axis.name, text) for axis, text in zip(axes, texts, strict=True))
    bound = {n.removeprefix(BIND): int(text) for n, text in varied if n.startswith(BIND)}
    chosen = dict(varied).get(TARGET, target)
    settings = (f"{n}={t}" for n, t in varied if n != TARGET and not n.startswith(BIND))
    return SweepPoint(chosen, tuple(settings), tuple({**sizes, **bound}.items()), varied)


@dataclass(frozen=True, slots=True)
class SweepRow:
    """The result of one point.

    `kind`: "measured" (`median_us` with its 99 % interval), "simulated" (`predicted_us` of a data
    sheet), or "failed" for the `reason`. `machine` is the digest of `card`, the machine that the
    row was made on: rows of different machines are never compared. `predicted_us` is the planned
    wall's, `arena_bytes` the memory between kernels, `compile_seconds` the compilation's time
    there, from caches or not.
    """

    key: str
    model: str
    varied: tuple[tuple[str, str], ...]
    kind: str
    machine: str
    card: str
    median_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    runs: int = 0
    predicted_us: float | None = None
    kernels: int = 0
    arena_bytes: int = 0
    compile_seconds: float = 0.0
    reason: str = ""

    @property
    def us(self) -> float | None:
        """The time of a run: measured, else predicted."""
        return self.predicted_us if self.median_us is None else self.median_us

    @property
    def sizes(self) -> str:
        """The varied sizes: "seq=64, batch=1 on ", or ""."""
        bindings = [f"{n.removeprefix(BIND)}={t}" for n, t in self.varied if n.startswith(BIND)]
        return f"{', '.join(bindings)} on " if bindings else ""

    @property
    def words(self) -> str:
        """The result in a few words."""
        if self.kind == FAILED:
            return self.reason
        if self.median_us is None:
            return f"{self.predicted_us:,.1f} us, predicted"
        return f"{self.median_us:,.1f} us ({self.low_us:,.1f} to {self.high_us:,.1f})"

    def to_json(self) -> dict[str, Any]:
        """Return the row in JSON types."""
        return {**asdict(self), "varied": [list(pair) for pair in self.varied]}


def row_of(data: object) -> SweepRow:
    """Return the row that `to_json` serialised; ValueError for other data."""
    if not isinstance(data, Mapping) or data.keys() != {f.name for f in fields(SweepRow)}:
        raise ValueError("a row has other fields")
    varied = data["varied"]
    pairs = isinstance(varied, list) and all(
        isinstance(p, list) and len(p) == 2 and all(isinstance(t, str) for t in p) for p in varied
    )
    texts = all(isinstance(data[n], str) for n in ("key", "model", "machine", "card", "reason"))
    numbers = all(
        data[f.name] is None or (isinstance(data[f.name], int | float))
        for f in fields(SweepRow)
        if f.name.endswith(("_us", "_bytes", "_seconds")) or f.name in ("runs", "kernels")
    )
    if not (pairs and texts and numbers and data["kind"] in KINDS):
        raise ValueError("a row has other values")
    return SweepRow(**{**data, "varied": tuple((a, b) for a, b in varied)})


def here() -> tuple[str, str]:
    """Return the digest and the text of this machine's card."""
    card = str(machine())
    return content_key("machine", card)[:16], card


class Store:
    """Rows by the key of their point and the machine; path None: in memory, for this sweep only."""

    def __init__(self, path: str | PathLike[str] | None) -> None:
        """Open or create the file."""
        self.path = path
        with self._problems():
            name = ":memory:" if path is None else str(Path(path))
            self._file = sqlite3.connect(name, timeout=WAIT_SECONDS)
            self._file.execute(SQL_CREATE)

    def __enter__(self) -> Store:
        """Return the store."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._file.close()

    def add(self, row: SweepRow) -> None:
        """Store a row; it replaces a failed one, but no other."""
        old = self.of(row.key, row.machine)
        if old is not None and old.kind != FAILED:
            return
        with self._problems(), self._file:
            self._file.execute(
                f"INSERT OR REPLACE INTO {SQL_TABLE} VALUES (?, ?, ?)",
                (row.key, row.machine, json.dumps(row.to_json())),
            )

    def of(self, key: str, machine: str | None) -> SweepRow | None:
        """Return the row of a point on a machine; `machine` None: on any."""
        where = "key = ?" if machine is None else "key = ? AND machine = ?"
        values = (key,) if machine is None else (key, machine)
        return next(self._rows(f"WHERE {where} ORDER BY machine", values), None)

    def _rows(self, clause: str, values: tuple[str, ...]) -> Iterator[SweepRow]:
        with self._problems():
            with closing(
                self._file.execute(f"SELECT row FROM {SQL_TABLE} {clause}", values)
            ) as cursor:
                texts = [text for (text,) in cursor]
            yield from [row_of(json.loads(text)) for text in texts]

    @contextmanager
    def _problems(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError, TypeError, RecursionError) as problem:
            raise BadOption(
                f"the rows in {self.path} cannot be used: {problem}",
                where="store",
                expected="a file that a sweep made, or a path where there is none",
            ) from problem
