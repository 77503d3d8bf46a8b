"""The brick wall: execution units by time, planned over measured, every gap with its cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.ir.decisions import Brick, Gap, Wall
from explorer.ir.program import Program
from widgets.svg import Svg, label, path, rect, text_width
from widgets.table import Table, time_text
from widgets.theme import family_token

CAUSES = ("imbalance", "tail", "dependency", "barrier", "launch", "preempted", "library")
NAMES = {
    "tail": "tail",
    "imbalance": "imbalance",
    "dependency": "waiting for a result",
    "barrier": "barrier",
    "launch": "program cut",
    "preempted": "preempted",
    "library": "library call",
}


@dataclass(frozen=True, slots=True)
class Call:
    """What bricks are parts of: a call of the last program, its family and its source operators."""

    name: str
    family: str
    ops: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class WallRows:
    """A wall as columns, sorted by unit and start: one entry a brick, then one a gap.

    Starts and ends are in microseconds; `call` is a position in `calls`, `first` to `last` are the
    tasks, both included, `cause` is a position in `CAUSES`.
    """

    kind: str
    units: int
    total_us: float
    calls: tuple[Call, ...]
    unit: NDArray[np.uint32]
    start: NDArray[np.float32]
    end: NDArray[np.float32]
    call: NDArray[np.uint32]
    first: NDArray[np.uint32]
    last: NDArray[np.uint32]
    gap_unit: NDArray[np.uint32]
    gap_start: NDArray[np.float32]
    gap_end: NDArray[np.float32]
    cause: NDArray[np.uint32]
    cuts_us: tuple[float, ...] = ()
    device: str = ""
    policy: str = ""

    def shares(self) -> dict[str, float]:
        """Parts of units times time: "busy", then each cause of idle time; together 1."""
        area = self.units * self.total_us
        if not area:
            return {"busy": 1.0}
        busy = float(np.sum(self.end - self.start, dtype=np.float64)) / area
        lengths = (self.gap_end - self.gap_start).astype(np.float64)
        idle = {name: float(lengths[self.cause == i].sum()) / area for i, name in enumerate(CAUSES)}
        named = {"busy": busy} | {n: v for n, v in idle.items() if v > 0}
        rest = 1 - sum(named.values())
        return named | ({"not named": rest} if rest > 0.0005 else {})

    def busy_by_unit(self) -> list[float]:
        """The share of the time that each unit works."""
        spent = np.bincount(self.unit, (self.end - self.start).astype(np.float64), self.units)
        return [float(v) / self.total_us if self.total_us else 0.0 for v in spent]

    def calls_of(self, op: str) -> list[int]:
        """The positions of the calls that come from a source operator."""
        return [i for i, c in enumerate(self.calls) if op in c.ops]


def data(wall: Wall, calls: Sequence[Call]) -> WallRows:
    """The columns of a wall; `calls` describes the calls that its bricks name.

    A brick inside of control flow is named by the way to it, as in `loop/call`.
    """
    known = {c.name: i for i, c in enumerate(calls)}
    index: dict[str, int] = {}
    everything = list(calls)
    for brick in wall.bricks:
        if brick.call not in index:
            at = next((known[n] for n in _endings(brick.call) if n in known), None)
            if at is None:
                at = len(everything)
                everything.append(Call(brick.call, "layout", tuple(sorted(brick.origin))))
            index[brick.call] = at
    bricks = sorted(wall.bricks, key=lambda b: (b.unit, b.start_us))
    gaps = sorted(wall.gaps, key=lambda g: (g.unit, g.start_us))
    return WallRows(
        wall.kind,
        wall.units,
        wall.total_us,
        tuple(everything),
        **_brick_columns(bricks, index),
        **_gap_columns(gaps),
        cuts_us=wall.cuts_us,
        device=wall.device,
        policy=wall.policy,
    )


def _endings(name: str) -> Iterator[str]:
    """The name, then what follows each of its slashes."""
    yield name
    at = name.find("/")
    while at >= 0:
        yield name[at + 1 :]
        at = name.find("/", at + 1)


def _brick_columns(bricks: Sequence[Brick], index: Mapping[str, int]) -> dict[str, Any]:
    return {
        "unit": np.array([b.unit for b in bricks], np.uint32),
        "start": np.array([b.start_us for b in bricks], np.float32),
        "end": np.array([b.end_us for b in bricks], np.float32),
        "call": np.array([index[b.call] for b in bricks], np.uint32),
        "first": np.array([b.first for b in bricks], np.uint32),
        "last": np.array([b.last - 1 for b in bricks], np.uint32),
    }


def _gap_columns(gaps: Sequence[Gap]) -> dict[str, Any]:
    known = {name: i for i, name in enumerate(CAUSES)}
    return {
        "gap_unit": np.array([g.unit for g in gaps], np.uint32),
        "gap_start": np.array([g.start_us for g in gaps], np.float32),
        "gap_end": np.array([g.end_us for g in gaps], np.float32),
        "cause": np.array([known[g.cause] for g in gaps], np.uint32),
    }


def calls_of(program: Program, families: Mapping[str, str]) -> tuple[Call, ...]:
    """Every call of a program in order; `families` gives the family by binding name."""
    order = {s.name: i for i, s in enumerate(program.sources)}
    return tuple(
        Call(name, families[name], tuple(sorted(b.origin, key=lambda o: order.get(o, 0))))
        for _, b in program.bindings()
        if (name := b.vars[0].name) in families
    )


COLUMNS = ("unit", "start", "end", "call", "first", "last")
GAP_COLUMNS = ("gap_unit", "gap_start", "gap_end", "cause")


def packed(rows: WallRows) -> tuple[dict[str, Any], bytes]:
    """What the canvas takes: a small description, and all columns one after the other, 4 bytes an
    entry.
    """
    columns = [getattr(rows, name) for name in (*COLUMNS, *GAP_COLUMNS)]
    head = {
        "kind": rows.kind,
        "units": rows.units,
        "total_us": rows.total_us,
        "bricks": len(rows.unit),
        "gaps": len(rows.gap_unit),
        "cuts_us": list(rows.cuts_us),
        "device": rows.device,
        "policy": rows.policy,
        "shares": rows.shares(),
        "busy": rows.busy_by_unit(),
    }
    return head, b"".join(
        np.ascontiguousarray(c).astype(c.dtype.newbyteorder("<")).tobytes() for c in columns
    )


def table(planned: WallRows, measured: WallRows | None = None) -> Table:
    """One row a brick, planned and measured side by side."""
    pairs = _paired(planned, measured)
    rows = tuple(
        (
            f"w{planned.unit[i]}",
            planned.calls[planned.call[i]].name,
            planned.calls[planned.call[i]].family,
            f"{planned.first[i]} to {planned.last[i]}",
            round(float(planned.start[i]), 1),
            round(float(planned.end[i] - planned.start[i]), 1),
            "" if measured is None or j is None else round(float(measured.start[j]), 1),
            ""
            if measured is None or j is None
            else round(float(measured.end[j] - measured.start[j]), 1),
        )
        for i, j in pairs
    )
    return Table(
        (
            "worker",
            "call",
            "family",
            "tasks",
            "planned start µs",
            "planned µs",
            "measured start µs",
            "measured µs",
        ),
        rows,
        tuple(planned.calls[planned.call[i]].ops for i, _ in pairs),
        caption(planned, measured),
    )


def caption(planned: WallRows, measured: WallRows | None) -> str:
    """Planned against measured in one line."""
    text = f"planned {time_text(planned.total_us)} on {planned.units} workers"
    if measured is None:
        return text
    error = planned.total_us / measured.total_us - 1 if measured.total_us else 0
    shares = ", ".join(f"{NAMES.get(n, n)} {v:.1%}" for n, v in measured.shares().items())
    return f"{text}, measured {time_text(measured.total_us)} (plan {error:+.0%}): {shares}"


def _paired(planned: WallRows, measured: WallRows | None) -> list[tuple[int, int | None]]:
    """Each planned brick with the measured one of the same call and first task."""
    if measured is None:
        return [(i, None) for i in range(len(planned.unit))]
    names = [c.name for c in measured.calls]
    at = {(names[measured.call[j]], int(measured.first[j])): j for j in range(len(measured.unit))}
    return [
        (i, at.get((planned.calls[planned.call[i]].name, int(planned.first[i]))))
        for i in range(len(planned.unit))
    ]


WIDTH, GUTTER = 960, 84


def figure(planned: WallRows, measured: WallRows | None = None, selected: str = "") -> Svg:
    """The wall as a still picture: runs that are thinner than a pixel are merged, so it stays
    small.
    """
    total = max(planned.total_us, measured.total_us if measured else 0) or 1
    marks: list[str] = []
    y = 6.0
    for unit in range(planned.units):
        marks += [
            rect(GUTTER, y, WIDTH - GUTTER - 8, 42, "var(--app)"),
            label(12, y + 16, f"w{unit}", "i mono"),
        ]
        if measured:
            marks.append(label(12, y + 33, f"{measured.busy_by_unit()[unit]:.1%} busy"))
        marks += _lane(planned, unit, y + 1.5, 11, total, selected, outlined=True)
        if measured:
            marks += _gaps(measured, unit, y + 15, 26, total)
            marks += _lane(measured, unit, y + 15, 26, total, selected, outlined=False)
        y += 46
    marks += _axis(y, total) + _legend(y + 30, {c.family for c in planned.calls})
    marks.append(label(12, y + 72, caption(planned, measured), "i"))
    return Svg(WIDTH, y + 84, "".join(marks), "Brick wall: " + caption(planned, measured))


def _scale(total: float) -> float:
    return (WIDTH - GUTTER - 8) / total


def runs(rows: WallRows, unit: int, scale: float) -> list[tuple[float, float, int]]:
    """(left, right, call) of a unit's bricks in pixels; neighbours of one call closer than a pixel
    become one.
    """
    merged: list[tuple[float, float, int]] = []
    for i in np.flatnonzero(rows.unit == unit):
        a, b, call = float(rows.start[i]) * scale, float(rows.end[i]) * scale, int(rows.call[i])
        if merged:
            left, right, before = merged[-1]
            thin = b - a < 4 or right - left < 4
            if a - right < 1 and ((before == call and thin) or right - left < 0.5):
                merged[-1] = (left, max(b, right), call if right - left < 0.5 else before)
                continue
        merged.append((a, b, call))
    return merged


def _lane(
    rows: WallRows, unit: int, y: float, high: float, total: float, selected: str, *, outlined: bool
) -> list[str]:
    scale, mine = _scale(total), set(rows.calls_of(selected)) if selected else set()
    shapes: dict[tuple[str, bool], list[str]] = {}
    for a, b, call in runs(rows, unit, scale):
        wide = max(b - a - (0.6 if b - a > 4 else 0), 0.6)
        shapes.setdefault((rows.calls[call].family, call in mine), []).append(
            f"M{GUTTER + a:.1f} {y}h{wide:.1f}v{high}h-{wide:.1f}z"
        )
    marks = []
    for (family, on), parts in shapes.items():
        fill = "var(--accent)" if on else f"url(#p-{family_token(family)})"
        stroke = "var(--accent)" if on else "var(--ink3)"
        style = (
            f'fill="none" stroke="{stroke}" stroke-width="0.7"' if outlined else f'fill="{fill}"'
        )
        marks.append(f'<path d="{"".join(parts)}" {style}/>')
    return marks


def _gaps(rows: WallRows, unit: int, y: float, high: float, total: float) -> list[str]:
    scale, marks = _scale(total), []
    for i in np.flatnonzero(rows.gap_unit == unit):
        a, b = float(rows.gap_start[i]) * scale, float(rows.gap_end[i]) * scale
        if b - a > 0.7:
            cause = CAUSES[rows.cause[i]]
            said = f"{NAMES[cause]} {time_text((b - a) / scale)}"
            marks.append(rect(GUTTER + a, y, b - a, high, f"url(#p-g-{cause})", title=said))
    return marks


def tick_step(total: float, at_most: int = 8) -> float:
    """The round number of which at most so many fit into the total."""
    power = 10.0 ** int(np.floor(np.log10(total / at_most)))
    return next(m * power for m in (1, 2, 5, 10) if total / (m * power) <= at_most)


def _axis(y: float, total: float) -> list[str]:
    step, scale = tick_step(total), _scale(total)
    marks = [path(f"M{GUTTER} {y + 0.5}H{WIDTH - 8}", "var(--line2)"), label(12, y + 14, "µs", "q")]
    for i in range(int(total / step) + 1):
        x = GUTTER + i * step * scale
        anchor = "middle" if i else "start"
        marks += [
            path(f"M{x:.1f} {y}v4", "var(--ink3)"),
            label(x, y + 15, f"{i * step:,.6g}", "q", anchor=anchor),
        ]
    return marks


def _legend(y: float, families: set[str]) -> list[str]:
    marks, x = [], float(GUTTER)
    for family in sorted(families):
        marks += [
            rect(x, y, 13, 11, f"url(#p-{family_token(family)})", 'stroke="var(--line2)"'),
            label(x + 18, y + 10, family),
        ]
        x += 30 + text_width(family)
    return marks
