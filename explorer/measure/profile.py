"""Where the time of a run went, by kernel call and by source operator: a wall, summed up."""

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
    """The time of one kernel or library call, summed over units and trips, and its share of all
    bricks.
    """

    name: str
    family: str
    us: float
    share: float
    tasks: int
    bricks: int
    origin: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """The time of one source operator and its share; `kind` is its operator, such as Conv.

    `shared`: some of its kernels compute other operators too, and their time was split evenly; so
    it is an estimate.
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
    """Kernels and operators, the longest first. `busy_us` is the time of all bricks, `total_us` the
    run's.

    `absent` says of each source operator that took no time why. `kind` is the wall's: only a clock
    says "measured".
    """

    kernels: tuple[KernelTime, ...]
    operators: tuple[OperatorTime, ...]
    absent: tuple[tuple[str, str], ...]
    busy_us: float
    total_us: float
    units: int
    kind: str

    def __str__(self) -> str:
        tables = _table("operator", self.operators), _table("kernel", self.kernels)
        return "\n".join((self.first_line, *tables))

    @property
    def first_line(self) -> str:
        """How long the run took, and how much of it the units were busy."""
        busy = f"{duration(self.busy_us)} of work in {counted(self.units, 'row')}"
        return f"{self.kind}: {duration(self.total_us)} per run, {busy}"


def _table(what: str, found: Sequence[KernelTime | OperatorTime]) -> str:
    rows = [(row.name, duration(row.us), percent(row.share)) for row in found[:MOST_ROWS]]
    if len(found) > MOST_ROWS:
        left = found[MOST_ROWS:]
        us, share = sum(row.us for row in left), sum(row.share for row in left)
        rows.append((f"{len(left):,} more", duration(us), percent(share)))
    return table((what, ">time", ">share"), rows)


def profile_of(program: Program, wall: Wall) -> Profile:
    """The time of each call of a program and of each of its source operators, on one wall."""
    kernels = _kernels(program, wall.everything)
    busy = sum(k.us for k in kernels)
    operators = _operators(program, kernels, busy)
    found = {o.name for o in operators}
    reasons = _reasons(program)
    absent = ((s.name, reasons.get(s.name, "")) for s in program.sources if s.name not in found)
    return Profile(kernels, operators, tuple(absent), busy, wall.total_us, wall.units, wall.kind)


def _reasons(program: Program) -> dict[str, str]:
    """Why source operators may take no time: nothing moves, they did not run, or they were
    dropped.
    """
    found: dict[str, str] = {}
    for _, binding in program.bindings():
        nothing = isinstance(binding.expr, View | MatchCast | ShapeOf)
        for name in binding.origin:
            if not nothing or name not in found:
                found[name] = "only a view: nothing moves" if nothing else "did not run"
    return found | dict(program.dropped)


def _kernels(program: Program, bricks: Iterable[Brick]) -> tuple[KernelTime, ...]:
    bindings = {v.name: b for _, b in program.bindings() for v in b.vars}
    by_call: dict[str, list[Brick]] = defaultdict(list)
    for brick in bricks:
        by_call[brick.call].append(brick)
    busy = sum(_us(b) for found in by_call.values() for b in found)
    rows = [_kernel(name, found, bindings.get(name), busy) for name, found in by_call.items()]
    return tuple(sorted(rows, key=lambda k: (-k.us, k.name)))


def _kernel(name: str, bricks: list[Brick], binding: Binding | None, busy: float) -> KernelTime:
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
    kinds = {s.name: s.op for s in program.sources}
    parts: dict[str, list[KernelTime]] = defaultdict(list)
    for kernel in kernels:
        for operator in kernel.origin:
            parts[operator].append(kernel)
    rows = []
    for name, found in parts.items():
        us = sum(k.us / len(k.origin) for k in found)
        rows.append(
            OperatorTime(
                name,
                kinds.get(name, ""),
                us,
                us / busy if busy else 0.0,
                tuple(k.name for k in found),
                any(len(k.origin) > 1 for k in found),
            )
        )
    return tuple(sorted(rows, key=lambda o: (-o.us, o.name)))


def _us(brick: Brick) -> float:
    return brick.end_us - brick.start_us
