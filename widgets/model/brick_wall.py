"""The brick wall as columns: execution units by time, with every gap and its cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.cached_property import cached_property
from explorer.devices.catalogue import unit_word
from explorer.ir.decisions.wall import CAUSES as IN_WORDS
from explorer.ir.decisions.wall import ControlFlowCounts, Trip, Wall
from explorer.ir.program import Program

ORDER = ("imbalance", "tail", "dependency", "barrier", "launch", "preempted", "library")
NAMES = {cause: IN_WORDS[cause] for cause in ORDER}  # of idle time, as in the glossary
CAUSES = tuple(NAMES)
PREDICTED = "predicted"
UIntArray = NDArray[np.uint32]
FloatArray = NDArray[np.float64]


def kind_text(kind: str) -> str:
    """Return a wall's kind as it is shown: "predicted" for a planned or simulated one."""
    return PREDICTED if kind in ("planned", "simulated") else kind


def units_text(count: int, device: str) -> str:
    """Return a number of units: `80 SMs`, `1 core`."""
    return f"{count:,} {unit_word(device)}{'' if count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class WallCall:
    """A call of the last program that bricks are parts of: family, source operators and label."""

    name: str
    family: str
    ops: tuple[str, ...]
    label: str


@dataclass(frozen=True, eq=False)
class WallRows:
    """A wall as columns, sorted by unit and start: one entry per brick, then one per gap.

    Work of the host is in a lane of its own, behind those of the units. Starts and ends are in
    microseconds. `call` is a position in `calls`; `first` to `last` are the tasks, both included;
    `launch` and `trip` (of a loop) distinguish bricks that run again; `cause` is a position in
    `CAUSES`. `ran` and `trips` are what its control flow did, if it was measured. `source` says
    where and when a wall was recorded that was not measured in this session.
    """

    kind: str
    units: int
    total_us: float
    calls: tuple[WallCall, ...]
    unit: UIntArray
    start: FloatArray
    end: FloatArray
    call: UIntArray
    first: UIntArray
    last: UIntArray
    launch: UIntArray
    trip: UIntArray
    gap_unit: UIntArray
    gap_start: FloatArray
    gap_end: FloatArray
    cause: UIntArray
    cuts_us: tuple[float, ...] = ()
    device: str = ""
    policy: str = ""
    on_host: bool = False  # whether Python runs anything
    ran: tuple[ControlFlowCounts, ...] = ()
    trips: tuple[Trip, ...] = ()
    order: NDArray[np.int64] | None = None  # the position of each in the wall that it was read from
    source: str = ""

    @property
    def title(self) -> str:
        """The wall's name: "predicted", "measured", or its recording."""
        return self.source or kind_text(self.kind)

    @property
    def bricks(self) -> int:
        """The number of bricks."""
        return len(self.unit)

    @property
    def lanes(self) -> int:
        """The number of units, plus one for the host if it runs anything."""
        return self.units + self.on_host

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Return the position of each lane's first brick, and the end of the last."""
        return np.searchsorted(self.unit, np.arange(self.lanes + 1))

    @cached_property
    def gap_rows(self) -> NDArray[np.int64]:
        """Return the position of each lane's first gap, and the end of the last."""
        return np.searchsorted(self.gap_unit, np.arange(self.lanes + 1))

    @cached_property
    def _by_call(self) -> tuple[dict[str, int], NDArray[np.int64], NDArray[np.int64]]:
        """Return each call's position by name, the tasks sorted by call, and each call's start."""
        order = np.argsort(self.call, kind="stable")
        first = np.searchsorted(self.call[order], np.arange(len(self.calls) + 1))
        return {c.name: n for n, c in enumerate(self.calls)}, order, first

    def of_calls(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the positions of the tasks of these calls, by unit and start."""
        call_positions, order, first = self._by_call
        mine = [
            order[first[n] : first[n + 1]]
            for n in {call_positions[c] for c in names if c in call_positions}
        ]
        return np.sort(np.concatenate(mine)) if mine else order[:0]

    def lane_name(self, lane: int, letter: str = "") -> str:
        """Return the name of a unit's lane, or the host's: `core 0`, `SM 12`."""
        if lane >= self.units:
            return "host"
        return f"{letter}{lane}" if letter else f"{unit_word(self.device)} {lane}"

    def areas_us(self) -> dict[str, float]:
        """Return units times time, in microseconds: "busy", then each cause of idle time.

        Only causes that occur. "not named" is the remaining area, if there is any.
        """
        on_units = self.rows[self.units]
        busy = float(np.sum((self.end - self.start)[:on_units]))
        lengths = self.gap_end - self.gap_start
        spent = np.bincount(self.cause, lengths, len(CAUSES))
        named = {"busy": busy} | {n: float(v) for n, v in zip(CAUSES, spent) if v > 0}
        unnamed = self.units * self.total_us - sum(named.values())
        return named | ({"not named": unnamed} if unnamed > 0.0005 * self.area_us else {})

    @property
    def area_us(self) -> float:
        """All units times all time, in microseconds."""
        return self.units * self.total_us

    def shares(self) -> dict[str, float]:
        """Return shares of units times time: "busy", then each cause of idle time; together 1."""
        if not self.area_us:
            return {"busy": 1.0}
        return {name: us / self.area_us for name, us in self.areas_us().items()}

    def busy_by_unit(self) -> list[float]:
        """Return the share of time that each unit works, and the host if it does."""
        spent = np.bincount(self.unit, self.end - self.start, self.lanes)
        return [float(v) / self.total_us if self.total_us else 0.0 for v in spent]

    def calls_of(self, op: str) -> list[int]:
        """Return the positions of the calls that come from a source operator."""
        return [i for i, c in enumerate(self.calls) if op in c.ops]


def data(wall: Wall, calls: Sequence[WallCall], source: str = "") -> WallRows:
    """Return the columns of a wall.

    `calls` describes the calls that its bricks name, `source` its recording. A brick inside control
    flow is named by its path, as in `loop/call`.
    """
    call_positions = {c.name: i for i, c in enumerate(calls)}
    index: dict[str, int] = {}
    everything = list(calls)
    for brick in wall.everything:
        if brick.call not in index:
            at = next(
                (call_positions[n] for n in _endings(brick.call) if n in call_positions), None
            )
            if at is None:
                at = len(everything)
                everything.append(
                    WallCall(brick.call, "layout", tuple(sorted(brick.origin)), brick.call)
                )
            index[brick.call] = at
    return WallRows(
        wall.kind,
        wall.units,
        wall.total_us,
        tuple(everything),
        **_brick_columns(wall, index),
        **_gap_columns(wall),
        cuts_us=wall.cuts_us,
        device=wall.device,
        policy=wall.policy,
        on_host=bool(wall.host),
        ran=wall.ran,
        trips=wall.trips,
        source=source,
    )


def _endings(name: str) -> Iterator[str]:
    """Yield the name, then the part after each of its slashes."""
    yield name
    at = name.find("/")
    while at >= 0:
        yield name[at + 1 :]
        at = name.find("/", at + 1)


def _brick_columns(wall: Wall, index: Mapping[str, int]) -> dict[str, Any]:
    numbers = (
        (b.unit, index[b.call], b.first, b.last - 1, b.program, b.iteration)
        for b in wall.everything
    )
    integers = _table(numbers, 6, np.uint32)
    start, end = _table(((b.start_us, b.end_us) for b in wall.everything), 2, np.float64)
    names = ("unit", "call", "first", "last", "launch", "trip")
    order = np.lexsort((start, integers[0]))
    columns = dict(zip(names, integers)) | {"start": start, "end": end}
    sorted_columns = {name: np.ascontiguousarray(column[order]) for name, column in columns.items()}
    return sorted_columns | {"order": order}


def _gap_columns(wall: Wall) -> dict[str, Any]:
    cause_positions = {name: i for i, name in enumerate(CAUSES)}
    unit, cause = _table(((g.unit, cause_positions[g.cause]) for g in wall.gaps), 2, np.uint32)
    start, end = _table(((g.start_us, g.end_us) for g in wall.gaps), 2, np.float64)
    order = np.lexsort((start, unit))
    columns = {"gap_unit": unit, "gap_start": start, "gap_end": end, "cause": cause}
    return {name: np.ascontiguousarray(column[order]) for name, column in columns.items()}


def _table(rows: Iterable[tuple[float, ...]], columns: int, kind: Any) -> NDArray[Any]:
    """Return rows as columns."""
    flat = np.fromiter(chain.from_iterable(rows), kind)
    return flat.reshape(-1, columns).T


def calls_of(
    program: Program, families: Mapping[str, str], labels: Mapping[str, str]
) -> tuple[WallCall, ...]:
    """Return every call of a program in order; `families` and `labels` are by binding name."""
    order = {s.name: i for i, s in enumerate(program.sources)}
    return tuple(
        WallCall(
            name,
            families[name],
            tuple(sorted(b.origin, key=lambda o: order.get(o, 0))),
            labels[name],
        )
        for _, b in program.bindings()
        if (name := b.vars[0].name) in families
    )
