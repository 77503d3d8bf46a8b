"""Tile programs (the Roller paper's rProgram): one task of a kernel as loops over tiles.

The loops work on flat buffers. Tile programs are what is compiled: named rewrites bring them from
their plain form to one that is printed statement by statement.

All addresses are affine offsets into a buffer, in elements; edge tiles are clipped by `Span`, never
by the addresses. From the bottom up: buffers and elements, spans, statements, the whole program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from explorer.ir.affine import Affine
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import Dim, Sizes, ceil_div, evaluate_dim
from explorer.ir.kernel import Const, IndexValue
from explorer.ir.scalar_functions import dtype_of_result
from explorer.ir.types import DType

REGISTER = "register"  # the level of a buffer that is private to a thread
FARTHEST = "DRAM"  # the name of the last level of CPUs; a data sheet may differ


@dataclass(frozen=True, slots=True)
class Buffer:
    """Flat memory.

    `kind`: input, constant, output, scratch (one a worker, or a thread block), packed (a constant
    laid out for `Contract`), or table (int64 offsets known at compile time). `level`: the name of
    the device's memory level that it lies in, or `REGISTER`. `streamed`: it fits no cache, so that
    stores bypass them.
    """

    name: str
    kind: str
    size: Dim
    dtype: DType = "float32"
    level: str = FARTHEST
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class Fetch:
    """One element: `Read` with the layout and the tile's origin resolved.

    `dynamic` adds data-dependent terms: each is (index expression, stride, extent); the index is
    clamped to the extent.
    """

    buffer: Buffer
    offset: Affine
    dynamic: tuple[tuple[TileExpr, Dim, Dim], ...] = ()


@dataclass(frozen=True, slots=True)
class Do:
    """A scalar function of tile expressions."""

    op: str
    args: tuple[TileExpr, ...]


TileExpr: TypeAlias = Const | IndexValue | Fetch | Do


def subexpressions(expr: TileExpr) -> Iterator[TileExpr]:
    """Yield an expression and its parts, each before its own; data-dependent offsets are parts."""
    todo: list[TileExpr] = [expr]
    while todo:
        part = todo.pop()
        yield part
        match part:
            case Do(_, args):
                todo += reversed(args)
            case Fetch(_, _, dynamic):
                todo += [e for e, _, _ in reversed(dynamic)]


def fetches(expr: TileExpr) -> tuple[Fetch, ...]:
    """Return every element that an expression loads, also those in data-dependent offsets."""
    return tuple([e for e in subexpressions(expr) if isinstance(e, Fetch)])


def dtype_of_tile(expr: TileExpr) -> DType:
    """Return the dtype of an expression."""
    match expr:
        case Const(_, dtype):
            return dtype
        case IndexValue():
            return "int64"
        case Fetch(buffer, _, _):
            return buffer.dtype
        case Do(op, args):
            return dtype_of_result(op, lambda n: dtype_of_tile(args[n]))


@dataclass(frozen=True, slots=True)
class Span:
    """An axis that runs over `base .. base + size`.

    It is clipped to `0 .. extent` where the flags say that it can be outside; every task has at
    least `least` points.
    """

    axis: str
    base: Affine
    size: Dim
    extent: Dim
    clip_low: bool = False
    clip_high: bool = False
    least: int = 0


@dataclass(frozen=True, slots=True)
class LoopForm:
    """The iteration order of a statement's points, `unroll` vectors of `lanes` at a time.

    `order` is one of:

    - "along": vectors along the reduced axis, whose lanes are reduced at the end, or along a row;
    - "across": vectors across the reduced axis, results in registers;
    - "rows": the same, results in memory;
    - "stacked": results of several rows side by side in a vector;
    - "turned": square blocks are transposed in registers;
    - "scan": a prefix within each vector;
    - "blocks": a copy of square blocks of `lanes` with swapped axes, `unroll` blocks side by side;
    - "sums in memory": one by one, the last spatial axis innermost;
    - "unrolled": one by one, each point a statement of its own, without those outside of a clip;
      the reduction loops are outside of them;
    - "matrix": sums of products of a whole warp, piece by piece on its matrix unit
      (`explorer.tile.gpu.matrix_units`).
    """

    order: str
    lanes: int = 1
    unroll: int = 1


@dataclass(frozen=True, slots=True)
class Threads:
    """A cyclic distribution of a loop's values over `count` threads.

    Value number n, counted from the base, goes to the thread at place n mod `count`. In nested
    loops the places make the thread's number in its block, the last one fastest. Threads past the
    product of the counts do nothing.
    """

    count: int


@dataclass(frozen=True, slots=True)
class For:
    """One iteration of the body for each value of the axis: in order, or by `threads` of a block.

    Threads run in any order from one `Sync` to the next. All threads together iterate over loops
    that are not distributed; only such a loop may contain a `Sync`.
    """

    span: Span
    body: tuple[Statement, ...]
    threads: Threads | None = None


@dataclass(frozen=True, slots=True)
class Sync:
    """A barrier of all threads of the scope, after which they see each other's writes.

    `scope`: "block", or "warp" where a block is one warp.
    """

    scope: str = "block"


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A reduction over registers of `lanes` neighbouring threads, whose result each of them gets.

    `lanes` is a power of two: values are combined pair by pair, within a warp and through no
    memory. All threads of a block reach it; it does not synchronise memory.
    """

    target: Fetch
    lanes: int
    combiner: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Fill:
    """Set every element of a buffer to `value`."""

    target: Buffer
    value: float


@dataclass(frozen=True, slots=True)
class Load:
    """Copy the part of a region that exists; with `Fill` before it, other elements are padding."""

    target: Fetch
    source: Fetch
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Pack:
    """`target[n // lanes][k][n % lanes] = source[n, k]`, zero where n is past its end.

    These are the panels of a micro-kernel. Neighbours along the depth lie in groups, as in
    `Packing`.
    """

    target: Buffer
    source: Fetch
    columns: Span
    depth: tuple[Span, ...]
    lanes: int
    group: int = 1


@dataclass(frozen=True, slots=True)
class Map:
    """`target = expr` for every point of the spans, the last one fastest."""

    target: Fetch
    spans: tuple[Span, ...]
    expr: TileExpr
    form: LoopForm | None = None


@dataclass(frozen=True, slots=True)
class Reduce:
    """`target = combiner over `over` of expr` for every point of the spans.

    `onto`: the target's old value is combined in as well.
    """

    target: Fetch
    spans: tuple[Span, ...]
    over: tuple[Span, ...]
    combiner: str
    expr: TileExpr
    dtype: DType = "float32"
    form: LoopForm | None = None
    onto: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """`target = combiner of expr over all of `over` up to this point`.

    It holds for every point of the spans and of `over`. `exclusive`: without the point itself.
    `backwards`: from the end.
    """

    target: Fetch
    spans: tuple[Span, ...]
    over: Span
    combiner: str
    expr: TileExpr
    dtype: DType = "float32"
    exclusive: bool = False
    backwards: bool = False
    form: LoopForm | None = None


@dataclass(frozen=True, slots=True)
class OnePass:
    """Maps and reductions in one loop over the same points, each with the same axes.

    The result of an earlier part is read at the same point only, a reduced one after the loop only.
    """

    parts: tuple[Map | Reduce, ...]
    form: LoopForm | None = None


@dataclass(frozen=True, slots=True)
class Border:
    """A window's axis along which a part of the window may lie outside of the data.

    The index is `first + step * r`, inside of `0 .. extent`.
    """

    axis: str
    first: Affine
    step: int
    extent: int


@dataclass(frozen=True, slots=True)
class Window:
    """A reduction over sliding windows, read in place.

    It computes `target = expr`, in which `reduction.target` stands for the reduction: of `data`,
    times `weights` if there are any, over the points of each window that lie inside of the borders.
    """

    reduction: Reduce
    data: Fetch
    weights: Fetch | None
    borders: tuple[Border, ...]
    target: Fetch
    expr: TileExpr

    @property
    def along(self) -> Span:
        """The axis of neighbouring results."""
        return self.reduction.spans[-2]

    @property
    def dense(self) -> Span:
        """The axis along which everything is dense."""
        return self.reduction.spans[-1]

    @property
    def counts(self) -> tuple[int, ...]:
        """The extents of the window."""
        return tuple(o.size for o in self.reduction.over if isinstance(o.size, int))

    @property
    def operands(self) -> tuple[Fetch, ...]:
        """The elements that the map reads besides the reduction."""
        return tuple(dict.fromkeys(f for f in fetches(self.expr) if f != self.reduction.target))


@dataclass(frozen=True, slots=True)
class Find:
    """`name = index` clamped to `0 .. extent - 1`, for later statements: a data-dependent row."""

    name: str
    index: TileExpr
    extent: Dim


@dataclass(frozen=True, slots=True)
class At:
    """The body once, with the axis at `index`, if the span has that value.

    Data selects the value, as in a store with a combiner, whose map reads its own target.
    """

    span: Span
    index: TileExpr
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Once:
    """A body that depends on the first `level` tile variables alone.

    Of consecutive tasks that differ in the others only, the first runs it for all.
    """

    level: int
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Contract:
    """A register tile of a contraction.

    It is `acc[r, c] = sum over s, k of a[a_row(r) + segments[s] + k * a_step] * b[b_start + (s *
    depth + k) * b_step + c]`. For small integers in groups of g it is `a[... + e] * b[... + c * g +
    e]` for e < g.

    The accumulators live in registers for the whole sum. Rows past the end repeat the last one:
    nothing is read outside.
    """

    acc: Buffer
    a: Fetch
    segments: Buffer
    segment_values: tuple[int, ...]
    depth: Dim
    a_step: int
    b: Fetch
    b_step: int


@dataclass(frozen=True, slots=True)
class Run:
    """Rows at a constant distance in every tensor.

    They are those along the last axis for every point of the `outer` ones, or all rows. Unless they
    are a multiple of the register tile's (`exact`), the last tile is moved back until it is full:
    some rows are computed twice.
    """

    outer: tuple[Span, ...]
    exact: bool


@dataclass(frozen=True, slots=True)
class Panels:
    """The register tiles of a contraction, each followed by its epilogue.

    For each `micro.columns` columns, for each `micro.rows` of the flattened rows: contract, then
    map the micro-tile. In `epilogue`, `_r` is the row inside the micro-tile and `_j` the first
    column of the panel.

    `run` is the layout of rows. None: each tile looks its rows up in `row_table`, and so those of
    operands without a constant distance from row to row. `operands` are the elements that the
    epilogue stores, first, and reads, where full tiles do it on registers; without any, the
    epilogue goes through the tile in L1. `prefetch` is what is fetched while a panel is read: the
    next "panel", the left operand's next "rows", or "" nothing.
    """

    rows: tuple[Span, ...]
    columns: Span
    micro: Micro
    contract: Contract
    row_table: Buffer
    epilogue: Map
    run: Run | None = None
    operands: tuple[Fetch, ...] = ()
    prefetch: str = ""


Statement: TypeAlias = (
    For
    | At
    | Once
    | Find
    | Fill
    | Load
    | Pack
    | Map
    | Reduce
    | Scan
    | OnePass
    | Window
    | Panels
    | Sync
    | Shuffle
)


@dataclass(frozen=True, slots=True)
class Grid:
    """One tile variable; the task number is split over all of them, the last one fastest."""

    variable: str
    axis: str
    tile: int
    extent: Dim

    @property
    def count(self) -> Dim:
        """The number of tiles along the axis."""
        return ceil_div(self.extent, self.tile)


@dataclass(frozen=True, slots=True)
class Packing:
    """The layout of a constant that is packed ahead of time.

    Element `offset + index . strides` of the flat `source`, for every index of
    [batch..., column, depth...], moves to [batch..., columns / lanes, depth, lanes], with zeros
    past the last column. With groups of neighbours along the depth the layout is [..., depth /
    group, lanes, group], with zeros to the end of the last group of the last depth axis.
    """

    name: str
    source: str
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    batch: int  # how many of the leading extents are batch dims
    lanes: int
    dtype: DType = "float32"
    group: int = 1


@dataclass(frozen=True, slots=True)
class TileProgram:
    """One task of a worker or of a thread block, as a function of the tile variables of `grid`.

    `block` is the target of the rewrites for a GPU.
    """

    grid: tuple[Grid, ...]
    body: tuple[Statement, ...]
    buffers: tuple[Buffer, ...]
    packings: tuple[Packing, ...] = ()
    tables: tuple[tuple[str, tuple[int, ...]], ...] = ()
    updates: bool = False  # True if its operands and results may alias
    block: Tiling | None = None

    def tasks(self, sizes: Sizes) -> int:
        """Return the number of tasks under a binding."""
        total = 1
        for g in self.grid:
            total *= -(
                -evaluate_dim(g.extent, sizes) // g.tile
            )  # with integers it is 100 times as fast
        return total
