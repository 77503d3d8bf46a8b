"""The resources of a multiprocessor that one block of a tile program uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from explorer.devices.model import Device
from explorer.ir.affine import var
from explorer.ir.kernel import Const, IndexValue
from explorer.ir.tile_program import (
    REGISTER,
    At,
    Do,
    Fetch,
    For,
    Map,
    Reduce,
    Scan,
    Statement,
    TileExpr,
    TileProgram,
    fetches,
)
from explorer.ir.tile_traversal import distributed_loops, threads_of, variables_of
from explorer.tile.gpu.bank_accesses import bank_accesses
from explorer.tile.gpu.distribute import UNROLLED
from explorer.tile.gpu.matrix_units import MATRIX, OWN, fragments
from explorer.tile.verify import shared_bytes


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a statement.

    `operations` are those of its warps, idle lanes included, `working` the busy threads, and
    `results` those that each has in flight at once: pieces of a warp if it is on the `matrix`
    units.
    """

    operations: int
    working: int
    results: int
    matrix: bool = False


@dataclass(frozen=True, slots=True)
class Demand:
    """The resources of one of `grid` blocks.

    It has `threads`, `shared_bytes` for all of them, `thread_elements` in the registers of one, and
    the work of its statements. `steps` are those of the statement with the most operations, between
    which all wait for loads. `phases` are what its threads do one after the other, each for what
    the last one made. `conflicts` are cycles that its warps wait for banks of shared memory that
    other lanes use too; `matrix_reads` are cycles in which shared memory supplies operands of
    matrix units.
    """

    grid: int
    threads: int
    shared_bytes: int
    thread_elements: int
    work: tuple[Work, ...]
    steps: int
    phases: int = 0
    conflicts: int = 0
    matrix_reads: int = 0

    @property
    def operations(self) -> int:
        """The operations of all statements outside of matrix units."""
        return sum(w.operations for w in self.work if not w.matrix)

    @property
    def matrix_operations(self) -> int:
        """The operations on matrix units."""
        return sum(w.operations for w in self.work if w.matrix)


@dataclass(frozen=True, slots=True)
class _Distributed:
    """A statement in loops distributed over threads, which runs `times` times."""

    loops: tuple[For, ...]
    statement: Map | Reduce | Scan
    times: int

    @property
    def working(self) -> int:
        """The threads that have a point."""
        return prod(min(_count(x), int(x.span.size)) for x in self.loops)

    @property
    def rounds(self) -> int:
        """The points of a thread, one after the other."""
        return prod(-(-int(x.span.size) // _count(x)) for x in self.loops)

    @property
    def own(self) -> int:
        """The points of the statement itself."""
        return prod(int(x.size) for x in self.statement.spans)

    def operations(self, device: Device) -> int:
        """Return the operations of all lanes of its warps, busy or not."""
        s = self.statement
        lanes = -(-self.working // device.lanes) * device.lanes
        each = max(1, _operations(s.expr) + (not isinstance(s, Map)))
        if s.form == MATRIX:
            each = 2  # one multiply-add
        along = s.over if isinstance(s, Reduce) else (s.over,) if isinstance(s, Scan) else ()
        summed = prod(int(x.size) for x in along)
        return lanes * self.rounds * self.own * summed * each * self.times

    @property
    def results(self) -> int:
        """The independent results of a thread.

        A sum waits for the one before it, a map does not.
        """
        if self.statement.form == MATRIX:
            return self.own // (OWN * OWN)
        return self.own * (self.rounds if isinstance(self.statement, Map) else 1)

    @property
    def elements(self) -> int:
        """The elements in a thread's registers: sums, and a value of each operand for them."""
        s = self.statement
        if s.form == MATRIX and isinstance(s, Reduce):
            warp_operands = fragments(s, [x.span.axis for x in self.loops])
            words = (
                prod(int(x.size) for x in f.spans[:-1])
                for f in (warp_operands.rows, warp_operands.columns)
            )
            return self.own + 2 * sum(words)  # the next operands are loaded meanwhile
        if s.form != UNROLLED or not isinstance(s, Reduce):
            return 0
        sizes = {x.axis: int(x.size) for x in s.spans}
        read = dict.fromkeys(fetches(s.expr))
        return self.own + sum(
            prod(n for a, n in sizes.items() if a in variables_of(f))
            for f in read
            if f.buffer.level != REGISTER
        )


def demand_of(p: TileProgram, device: Device, banks: bool = True) -> Demand:
    """Return the demand of a program that is distributed over threads, with or without Syncs.

    Without `banks` no two lanes are assumed to share a bank.
    """
    parts = list(_parts(p.body, 1))
    work = tuple(
        Work(x.operations(device), x.working, x.results, x.statement.form == MATRIX) for x in parts
    )
    most = max(zip(work, parts, strict=True), key=lambda x: (x[0].matrix, x[0].operations))[1]
    matrix = {
        f.buffer.name
        for x in parts
        if x.statement.form == MATRIX
        for f in fetches(x.statement.expr)
    }
    accesses = bank_accesses(p) if banks or matrix else {}
    read = (a for name in matrix for a in accesses.get(name, ()) if not a.store)
    return Demand(
        prod(int(g.count) for g in p.grid),
        threads_of(p.body),
        shared_bytes(p, device),
        max(x.elements for x in parts),
        work,
        most.times,
        _phases(p.body, 1),
        sum(a.cycles - a.least for each in accesses.values() for a in each) if banks else 0,
        sum(a.least for a in read),
    )


def _phases(body: Iterable[Statement], times: int) -> int:
    """Return the number of distributed loops, each times the trips of the loops around it."""
    count = 0
    for s in body:
        if isinstance(s, For):
            own = s.threads is not None
            count += times if own else _phases(s.body, times * int(s.span.size))
    return count


def _parts(body: Iterable[Statement], times: int) -> Iterator[_Distributed]:
    """Yield the statements in distributed loops, with the trips of the loops around them."""
    for s in body:
        if not isinstance(s, For):
            continue
        if s.threads is None:
            yield from _parts(s.body, times * int(s.span.size))
            continue
        loops, inner = distributed_loops(s)
        yield from (_Distributed(loops, x, n) for x, n in _points(inner, times))


def _points(body: Sequence[Statement], times: int) -> Iterator[tuple[Map | Reduce | Scan, int]]:
    """Yield the statements of a thread's points, and how often each runs.

    Where data select places, a thread tests all and applies its even share of them.
    """
    for s in body:
        match s:
            case Map() | Reduce() | Scan():
                yield s, times
            case For(span, inner):
                yield from _points(inner, times * int(span.size))
            case At(span, index, inner):
                for x, n in _points(inner, times):
                    test = Do("lands", (index, IndexValue(var(span.axis))))
                    yield Map(x.target, (), test), n
                    yield x, max(1, n * int(span.size) // int(span.extent))


def _count(loop: For) -> int:
    return 1 if loop.threads is None else loop.threads.count


def _operations(expr: TileExpr) -> int:
    """Return the scalar functions in an expression; bounds checks of an index are not counted."""
    match expr:
        case Do("where", (guard, Fetch(), Const())) if not fetches(guard):
            return 0
        case Do(_, args):
            return 1 + sum(map(_operations, args))
    return 0
