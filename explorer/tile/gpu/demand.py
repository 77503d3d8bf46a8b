"""What one block of a tile program asks of a multiprocessor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from explorer.devices.model import Device
from explorer.ir.affine import var
from explorer.ir.kernel import Const, IndexValue
from explorer.ir.tile_programs.elements import REGISTER, Do, Fetch, TileExpr, fetches
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import At, For, Map, Reduce, Scan, Statement
from explorer.ir.tile_programs.traversal import affines, dealt, threads_of
from explorer.tile.gpu.banks.bank_accesses import asked_of
from explorer.tile.gpu.distribute import UNROLLED
from explorer.tile.gpu.matrix_units import MATRIX, OWN, fragments
from explorer.tile.verify import shared_bytes


@dataclass(frozen=True, slots=True)
class Work:
    """Of a statement the operations of its warps, idle lanes included, the threads that are at
    work, and the `results` that each has under way at once: pieces of a warp where it is on the
    `matrix` units.
    """

    operations: int
    working: int
    results: int
    matrix: bool = False


@dataclass(frozen=True, slots=True)
class Demand:
    """Of one of `grid` blocks: its `threads`, the `shared_bytes` of all, the elements that one of
    them has in registers, the work of its statements; and of the one with the most operations the
    `steps` between which all wait for what is loaded. `phases`: what its threads do one after the
    other, each for what the last one has made. `conflicts`: cycles that its warps wait for banks of
    shared memory which others of their lanes have, too; `matrix_reads`: cycles in which it gives
    what is multiplied on matrix units.
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
        """Of all statements that threads do by themselves."""
        return sum(w.operations for w in self.work if not w.matrix)

    @property
    def matrix_operations(self) -> int:
        """Of those on matrix units."""
        return sum(w.operations for w in self.work if w.matrix)


@dataclass(frozen=True, slots=True)
class _Dealt:
    """A statement in the loops that are dealt out to threads, which happens `times` over."""

    loops: tuple[For, ...]
    statement: Map | Reduce | Scan
    times: int

    @property
    def working(self) -> int:
        """Threads that have a point."""
        return prod(min(_count(x), int(x.span.size)) for x in self.loops)

    @property
    def rounds(self) -> int:
        """Points of a thread, one after the other."""
        return prod(-(-int(x.span.size) // _count(x)) for x in self.loops)

    @property
    def own(self) -> int:
        """Points of the statement itself."""
        return prod(int(x.size) for x in self.statement.spans)

    def operations(self, device: Device) -> int:
        """Of all lanes of its warps, at work or not."""
        s = self.statement
        lanes = -(-self.working // device.lanes) * device.lanes
        each = max(1, _operations(s.expr) + (not isinstance(s, Map)))
        if s.form == MATRIX:
            each = 2  # a product is added as it is made
        along = s.over if isinstance(s, Reduce) else (s.over,) if isinstance(s, Scan) else ()
        summed = prod(int(x.size) for x in along)
        return lanes * self.rounds * self.own * summed * each * self.times

    @property
    def results(self) -> int:
        """A sum waits for the one before it; what is mapped for nothing."""
        if self.statement.form == MATRIX:
            return self.own // (OWN * OWN)
        return self.own * (self.rounds if isinstance(self.statement, Map) else 1)

    @property
    def elements(self) -> int:
        """That a thread has in registers: sums, and a value of each operand for all of them."""
        s = self.statement
        if s.form == MATRIX and isinstance(s, Reduce):
            found = fragments(s, [x.span.axis for x in self.loops])
            words = (prod(int(x.size) for x in f.spans[:-1]) for f in (found.rows, found.columns))
            return self.own + 2 * sum(words)  # the next ones come while these are multiplied
        if s.form != UNROLLED or not isinstance(s, Reduce):
            return 0
        sizes = {x.axis: int(x.size) for x in s.spans}
        read = dict.fromkeys(fetches(s.expr))
        return self.own + sum(
            prod(n for a, n in sizes.items() if a in _along(f))
            for f in read
            if f.buffer.level != REGISTER
        )


def demand_of(p: TileProgram, device: Device, banks: bool = True) -> Demand:
    """Of a program that is dealt out to threads, whether its Syncs are placed or not. Not `banks`:
    as if no two lanes had one in common.
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
    asked = asked_of(p) if banks or matrix else {}
    read = (a for name in matrix for a in asked.get(name, ()) if not a.store)
    return Demand(
        prod(int(g.count) for g in p.grid),
        threads_of(p.body),
        shared_bytes(p, device),
        max(x.elements for x in parts),
        work,
        most.times,
        _phases(p.body, 1),
        sum(a.cycles - a.least for each in asked.values() for a in each) if banks else 0,
        sum(a.least for a in read),
    )


def _phases(body: Iterable[Statement], times: int) -> int:
    """Loops that are dealt out, each as often as threads go through it together."""
    found = 0
    for s in body:
        if isinstance(s, For):
            own = s.threads is not None
            found += times if own else _phases(s.body, times * int(s.span.size))
    return found


def _parts(body: Iterable[Statement], times: int) -> Iterator[_Dealt]:
    for s in body:
        if not isinstance(s, For):
            continue
        if s.threads is None:
            yield from _parts(s.body, times * int(s.span.size))
            continue
        loops, inner = dealt(s)
        yield from (_Dealt(loops, x, n) for x, n in _points(inner, times))


def _points(body: Sequence[Statement], times: int) -> Iterator[tuple[Map | Reduce | Scan, int]]:
    """What a thread does of its points, and how often; where data place something, it looks at all
    and does its even share of them.
    """
    for s in body:
        match s:
            case Map() | Reduce() | Scan():
                yield s, times
            case For(span, inner):
                yield from _points(inner, times * int(span.size))
            case At(span, index, inner):
                for x, n in _points(inner, times):
                    look = Do("lands", (index, IndexValue(var(span.axis))))
                    yield Map(x.target, (), look), n
                    yield x, max(1, n * int(span.size) // int(span.extent))


def _count(loop: For) -> int:
    return 1 if loop.threads is None else loop.threads.count


def _along(f: Fetch) -> frozenset[str]:
    return frozenset(name for a in affines(f) for name in a.variables)


def _operations(expr: TileExpr) -> int:
    """Functions of scalars in an expression; whether an index is inside of a tensor is none."""
    match expr:
        case Do("where", (guard, Fetch(), Const())) if not fetches(guard):
            return 0
        case Do(_, args):
            return 1 + sum(map(_operations, args))
    return 0
