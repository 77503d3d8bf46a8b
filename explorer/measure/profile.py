"""Time of a run by kernel call and by source operator: a summary of a wall."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from explorer.ir.calls import MatchCast, ShapeOf, View
from explorer.ir.decisions.wall import Brick, Wall
from explorer.ir.program import Binding, Program
from explorer.ops import family
from explorer.plain_text import counted, duration, percent, table
from explorer.printed import Printed


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Time of one kernel or library call over all units and trips, and its share of all bricks."""

    name: str
    family: str
    us: float
    share: float
    tasks: int
    bricks: int
    origin: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """Time of one source operator and its share; `kind` is its operator, such as Conv.

    `shared`: some of its kernels compute other operators too; their time is split evenly, so this
    is an estimate.
    """

    name: str
    kind: str
    us: float
    share: float
    kernels: tuple[str, ...]
    shared: bool


MOST_ROWS = 20  # of a table in the summary; chosen


@dataclass(frozen=True, slots=True, repr=False)
class Profile(Printed):
    """Kernels and operators, the longest first.

    `busy_us` is the time of all bricks, `total_us` that of the run. `absent` gives the reason for
    each source operator that took no time. `kind` is the wall's: only a clock says "measured".
    """

    kernels: tuple[KernelTime, ...]
    operators: tuple[OperatorTime, ...]
    absent: tuple[tuple[str, str], ...]
    busy_us: float
    total_us: float
    units: int
    kind: str

    def __str__(self) -> str:
        """Return tables of operators and kernels."""
        tables = _table("operator", self.operators), _table("kernel", self.kernels)
        return "\n".join((self.first_line, *tables))

    @property
    def first_line(self) -> str:
        """The time of the run, and how much of it the units were busy."""
        busy = f"{duration(self.busy_us)} of work in {counted(self.units, 'row')}"
        return f"{self.kind}: {duration(self.total_us)} per run, {busy}"


def _table(what: str, entries: Sequence[KernelTime | OperatorTime]) -> str:
    """Format the longest rows as a table."""
    rows = [(row.name, duration(row.us), percent(row.share)) for row in entries[:MOST_ROWS]]
    if len(entries) > MOST_ROWS:
        left = entries[MOST_ROWS:]
        us, share = sum(row.us for row in left), sum(row.share for row in left)
        rows.append((f"{len(left):,} more", duration(us), percent(share)))
    return table((what, ">time", ">share"), rows)


def profile_of(program: Program, wall: Wall) -> Profile:
    """Return the time of each call and of each source operator of a program on one wall."""
    kernels = _kernels(program, wall.everything)
    busy = sum(k.us for k in kernels)
    operators = _operators(program, kernels, busy)
    seen = {o.name for o in operators}
    reasons = _reasons(program)
    absent = ((s.name, reasons.get(s.name, "")) for s in program.sources if s.name not in seen)
    return Profile(kernels, operators, tuple(absent), busy, wall.total_us, wall.units, wall.kind)


def _reasons(program: Program) -> dict[str, str]:
    """Return why source operators may take no time: views, skipped code, or dropped operators."""
    reasons: dict[str, str] = {}
    for _, binding in program.bindings():
        nothing = isinstance(binding.expr, View | MatchCast | ShapeOf)
        for name in binding.origin:
            if not nothing or name not in reasons:
                reasons[name] = "only a view: nothing moves" if nothing else "did not run"
    return reasons | dict(program.dropped)


def _kernels(program: Program, bricks: Iterable[Brick]) -> tuple[KernelTime, ...]:
    """Return the time of each call."""
    bindings = {v.name: b for _, b in program.bindings() for v in b.vars}
    by_call: dict[str, list[Brick]] = defaultdict(list)
    for brick in bricks:
        by_call[brick.call].append(brick)
    busy = sum(_us(b) for of_call in by_call.values() for b in of_call)
    rows = [_kernel(name, of_call, bindings.get(name), busy) for name, of_call in by_call.items()]
    return tuple(sorted(rows, key=lambda k: (-k.us, k.name)))


def _kernel(name: str, bricks: list[Brick], binding: Binding | None, busy: float) -> KernelTime:
    """Return the time of one call."""
    us = sum(_us(b) for b in bricks)
    origin = frozenset[str]().union(*(b.origin for b in bricks)) or (
        binding.origin if binding else frozenset()
    )
    return KernelTime(
        name,
        family(binding) if binding else "",
        us,
        us / busy if busy else 0.0,
        sum(b.last - b.first for b in bricks),
        len(bricks),
        tuple(sorted(origin)),
    )


def _operators(
    program: Program, kernels: tuple[KernelTime, ...], busy: float
) -> tuple[OperatorTime, ...]:
    """Return the time of each source operator."""
    kinds = {s.name: s.op for s in program.sources}
    parts: dict[str, list[KernelTime]] = defaultdict(list)
    for kernel in kernels:
        for operator in kernel.origin:
            parts[operator].append(kernel)
    rows = []
    for name, kernels_of in parts.items():
        us = sum(k.us / len(k.origin) for k in kernels_of)
        rows.append(
            OperatorTime(
                name,
                kinds.get(name, ""),
                us,
                us / busy if busy else 0.0,
                tuple(k.name for k in kernels_of),
                any(len(k.origin) > 1 for k in kernels_of),
            )
        )
    return tuple(sorted(rows, key=lambda o: (-o.us, o.name)))


def _us(brick: Brick) -> float:
    """Return the duration of a brick."""
    return brick.end_us - brick.start_us
