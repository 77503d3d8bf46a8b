"""Matrix products that a warp computes piece by piece on its matrix unit.

A piece is 16 x 8 results, over 16 of the depth at a time (PTX ISA, section 9.7.15.5:
mma.m16n8k16).

s[i, j] = sum[k] xs[i, k] * ws[j, k] for i in 2 i' .. 2 i' + 2, j in 2 j' .. 2 j' + 2
    for i' < 8, j' < 8 on 8 x 8 threads
->
s[i, j] = sum[k] xs[i, k] * ws[j, k] for i = i' + 8 a, j = 8 j" + 2 j' + b, a < 2, b < 2, matrix
    for j" < 2, i' < 8, j' < 4 on 2 x 8 x 4 threads

Each thread still has sums of its own, which determine what it reads of the operands. A warp loads
the operands together: lane 4 i' + j' loads two neighbours along k of each of its rows, and of a
column whose sums other lanes have (`fragments`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from explorer.devices.model import Device
from explorer.ir.affine import Affine, var
from explorer.ir.decisions.tiling import Tiling, thread_block
from explorer.ir.dtypes import HALF_FLOATS, DType
from explorer.ir.tile_program import (
    REGISTER,
    Buffer,
    Do,
    Fetch,
    For,
    LoopForm,
    Map,
    Reduce,
    Span,
    Statement,
    Threads,
    TileExpr,
    TileProgram,
)
from explorer.ir.tile_traversal import distributed_loops, moved, substitute, touched, with_loads
from explorer.tile.gpu.distribute import PIECE_LANES, UNROLLED

MATRIX = LoopForm("matrix")
ROWS, COLUMNS, DEPTH = 16, 8, 16  # of a piece
LANE_ROWS, LANE_COLUMNS = PIECE_LANES
OWN = 2  # rows of a piece in a lane, and neighbouring columns


def on_matrix_units(p: TileProgram, device: Device) -> TileProgram:
    """Compute sums of products on matrix units if the block selects them.

    Both operands must be floats of 16 bits in shared memory, contiguous along the depth, and the
    sums float32; other sums stay as they are.
    """
    block = p.block or thread_block()
    if not block.matrix or not device.has_matrix_units:
        return p
    for s in _distributed(p.body):
        pieces = _pieces(s, block)
        if pieces is not None:
            p = replace(p, body=tuple(pieces.of(x) for x in p.body))
    return p


def _distributed(body: Iterable[Statement]) -> Iterator[For]:
    """Yield the outermost distributed loops."""
    for s in body:
        if isinstance(s, For):
            yield from (s,) if s.threads is not None else _distributed(s.body)


@dataclass(frozen=True, slots=True)
class Fragment:
    """The elements of one operand that a lane loads for a step of the depth.

    The last `spans` are the two halves of a piece along the depth, and two neighbours.
    """

    element: Fetch
    spans: tuple[Span, ...]

    @property
    def in_words(self) -> bool:
        """True if two neighbours are a word of memory."""
        offset, pair = self.element.offset, self.spans[-1].axis
        other_factors = [f for name, f in offset.terms if name != pair]
        is_even = all(isinstance(n, int) and n % 2 == 0 for n in (*other_factors, offset.const))
        return is_even and offset.factor(pair) == 1


@dataclass(frozen=True, slots=True)
class Fragments:
    """Both operands of a reduction on matrix units.

    `pieces` are the axes of the pieces of a warp, `own` those of the sums that a lane has of one.
    `over` are the reduced axes, the last one in steps of a whole piece.
    """

    rows: Fragment
    columns: Fragment
    pieces: tuple[Span, ...]
    own: tuple[Span, Span]
    over: tuple[Span, ...]
    dtype: DType


def fragments(s: Reduce, lanes: Sequence[str]) -> Fragments:
    """Return the elements of both operands that each lane loads.

    `lanes` are the two innermost distributed loops, along the rows and the columns of a piece. A
    lane loads the column of the right operand with the number of its row, whichever lane has its
    sums.
    """
    (a, b), (row, column) = _operands(s.expr), lanes[-2:]
    pieces, half, pair = s.spans[:-2], s.spans[-2], s.spans[-1]
    if a.offset.factor(row) == 0:
        a, b = b, a
    across = b.offset.without({column, pair.axis}) + var(row) * b.offset.factor(pair.axis)
    b = replace(b, offset=across)
    depth = s.over[-1]
    steps = Span(f"{depth.axis}_d", Affine(), int(depth.size) // DEPTH, int(depth.size) // DEPTH)
    along = Span(f"{depth.axis}_h", Affine(), 2, 2), Span(f"{depth.axis}_e", Affine(), 2, 2)
    value = depth.base + var(steps.axis) * DEPTH + var(column) * 2
    value = value + var(along[0].axis) * (DEPTH // 2) + var(along[1].axis)
    a, b = (replace(f, offset=f.offset.substitute({depth.axis: value})) for f in (a, b))
    own_pieces = ([x for x in pieces if f.offset.factor(x.axis)] for f in (a, b))
    return Fragments(
        Fragment(a, (*next(own_pieces), half, *along)),
        Fragment(b, (*next(own_pieces), *along)),
        pieces,
        (half, pair),
        (*s.over[:-1], steps),
        a.buffer.dtype,
    )


def _operands(expr: TileExpr) -> tuple[Fetch, Fetch]:
    match expr:
        case Do("mul", (Do("cast_float32", (Fetch() as a,)), Do("cast_float32", (Fetch() as b,)))):
            return a, b
    raise AssertionError("matrix units multiply exactly two elements")


@dataclass(frozen=True, slots=True)
class _AxisDistribution:
    """The distribution of the rows, or the columns, over threads.

    Each of `count` threads has `size` points; `lanes` of them are of one warp. `apart` is the
    distance from one point of a lane to the next, `each` from one lane to the next.
    """

    axis: str
    thread: str
    base: Affine
    size: int
    count: int
    lanes: int
    apart: int
    each: int

    @property
    def piece(self) -> int:
        """The points of a piece along it."""
        return self.lanes * OWN

    @property
    def warps(self) -> int:
        """The warps of the block along it."""
        return self.count // self.lanes

    @property
    def value(self) -> Affine:
        """A point, by the variables of its warp, its piece, its lane and which of two it is."""
        own = var(f"{self.thread}_e") * self.apart + var(f"{self.thread}_l") * self.each
        pieces = self.size // OWN
        if pieces > 1:
            own = own + var(f"{self.thread}_n") * self.piece
        if self.warps > 1:
            own = own + var(f"{self.thread}_w") * (self.piece * pieces)
        return self.base + own

    @property
    def register(self) -> Affine:
        """The same point in the old numbering, by the thread and its own points."""
        own = var(f"{self.thread}_e")
        if self.size > OWN:
            own = own + var(f"{self.thread}_n") * OWN
        return self.base + var(self.thread) * self.size + own

    def spans(self) -> tuple[Span, Span]:
        """Return the pieces, and the two points of one."""
        numbers = (("_n", self.size // OWN), ("_e", OWN))
        many, two = (Span(f"{self.thread}{n}", Affine(), k, k) for n, k in numbers)
        return many, two

    def loops(self) -> tuple[tuple[Span, int], tuple[Span, int]]:
        """Return the loops over warps, and over the lanes of one."""
        numbers = (("_w", self.warps), ("_l", self.lanes))
        warps, lanes = ((Span(f"{self.thread}{n}", Affine(), k, k), k) for n, k in numbers)
        return warps, lanes


@dataclass(frozen=True, slots=True)
class _Pieces:
    """A reduction on matrix units.

    Other parts of the block that use its sums are distributed alike.
    """

    sums: Buffer
    rows: _AxisDistribution
    columns: _AxisDistribution
    depth: str

    def of(self, s: Statement) -> Statement:
        """Return a statement of the block, rewritten with its body."""
        if not isinstance(s, For):
            return s
        if s.threads is None:
            return replace(s, body=tuple(self.of(x) for x in s.body))
        if self.sums not in touched(s):
            return s
        loops, body = distributed_loops(s)
        rewritten = tuple(y for x in body for y in self._in_pieces(x))
        by_thread = {x.thread: x for x in (self.rows, self.columns)}
        others = [
            (x.span, x.threads.count) for x in loops if x.span.axis not in by_thread and x.threads
        ]
        both = self.rows.loops(), self.columns.loops()
        warps = [pair[0] for pair in both if pair[0][1] > 1]
        for span, count in reversed([*others, *warps, *(pair[1] for pair in both)]):
            rewritten = (For(span, rewritten, Threads(count)),)
        return rewritten[0]

    def _in_pieces(self, s: Statement) -> Iterator[Statement]:
        """Yield a statement with the points of pieces; several if an axis is clipped."""
        if not isinstance(s, Map | Reduce):
            yield s
            return
        distributions = (self.rows, self.columns)
        cut = {x.axis: x for x in s.spans if x.clip_low or x.clip_high}
        choices: list[list[Mapping[str, Affine]]] = []
        for distribution in distributions:
            many, two = distribution.spans()
            names = product(range(int(many.size)), range(int(two.size)))
            every: list[Mapping[str, Affine]] = [
                {many.axis: Affine((), n), two.axis: Affine((), e)} for n, e in names
            ]
            choices.append(every if distribution.axis in cut else [{}])
        for own in product(*choices):
            yield self._at(s, cut, {k: v for values in own for k, v in values.items()})

    def _at(
        self, s: Map | Reduce, cut: Mapping[str, Span], own: Mapping[str, Affine]
    ) -> Map | Reduce:
        """Return the statement; clipped axes have one point, those of `own` these values."""
        by_axis = {x.axis: x for x in (self.rows, self.columns)}
        before = {axis: x.register.substitute(own) for axis, x in by_axis.items()}
        after = {axis: x.value.substitute(own) for axis, x in by_axis.items()}
        uncut = {axis: value for axis, value in after.items() if axis not in cut}
        pieces, twos = list[Span](), list[Span]()
        for x in s.spans:
            if x.axis not in by_axis:
                pieces.append(x)
            elif x.axis in cut:
                twos.append(replace(x, base=after[x.axis], size=1))
            else:
                many, two = by_axis[x.axis].spans()
                pieces += [many] if many.size > 1 else []
                twos.append(two)

        def register(f: Fetch) -> Fetch:
            return moved(f, before) if f.buffer.level == REGISTER else f

        target = moved(register(s.target), uncut)
        expr = substitute(with_loads(s.expr, register), uncut)
        if isinstance(s, Map):
            return replace(s, target=target, spans=(*pieces, *twos), expr=expr)
        twos.sort(key=lambda x: x.axis != f"{self.rows.thread}_e")
        over = tuple(sorted(s.over, key=lambda x: x.axis == self.depth))
        spans = (*pieces, *twos)
        return replace(s, target=target, spans=spans, over=over, expr=expr, form=MATRIX)


def _pieces(s: For, block: Tiling) -> _Pieces | None:
    """Return how the first reduction in these loops is computed on matrix units, or None."""
    loops, body = distributed_loops(s)
    r = body[0] if body else None
    if not isinstance(r, Reduce) or r.form != UNROLLED or not _multiplies(r):
        return None
    a, b = _operands(r.expr)
    rows, columns, depth = block.matrix
    along = next((x for x in r.over if x.axis == depth), None)
    if along is None or int(along.size) % DEPTH or any(x.clip_low or x.clip_high for x in r.over):
        return None
    if a.offset.factor(rows) == 0:
        a, b = b, a
    reads = (rows in a.offset.variables, columns in b.offset.variables)
    if not all(reads) or rows in b.offset.variables or columns in a.offset.variables:
        return None
    if any(f.offset.factor(depth) != 1 for f in (a, b)):
        return None
    up = _axis_distribution(r, loops, rows, LANE_ROWS, LANE_ROWS, 1)
    across = _axis_distribution(r, loops, columns, LANE_COLUMNS, 1, OWN)
    if up is None or across is None:
        return None
    return _Pieces(r.target.buffer, up, across, depth)


def _multiplies(r: Reduce) -> bool:
    """Return True if a reduction adds products to existing sums, as matrix units do."""
    match r.expr:
        case Do("mul", (Do("cast_float32", (Fetch() as a,)), Do("cast_float32", (Fetch() as b,)))):
            pass
        case _:
            return False
    shared = all(f.buffer.kind == "scratch" and f.buffer.level != REGISTER for f in (a, b))
    dtypes = a.buffer.dtype == b.buffer.dtype and a.buffer.dtype in HALF_FLOATS
    plain = not (a.dynamic or b.dynamic or any(x.clip_low or x.clip_high for x in r.spans))
    sums = r.combiner == "sum" and r.dtype == "float32" and r.onto
    return shared and dtypes and plain and sums


def _axis_distribution(
    r: Reduce, loops: Sequence[For], axis: str, lanes: int, apart: int, each: int
) -> _AxisDistribution | None:
    """Return how threads share an axis of a reduction; None if pieces do not fit it."""
    x = next((x for x in r.spans if x.axis == axis), None)
    if x is None:
        return None
    loop = next((y for y in loops if x.base.factor(y.span.axis)), None)
    if loop is None or loop.threads is None:
        return None
    size, count, thread = int(x.size), loop.threads.count, loop.span.axis
    is_full = loop.span.size == count and x.base.factor(thread) == size
    if not is_full or size % OWN or count % lanes:
        return None
    return _AxisDistribution(
        axis, thread, x.base.without({thread}), size, count, lanes, apart, each
    )
