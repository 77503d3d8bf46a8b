"""Tile programs (the Roller paper's rProgram): one task of a kernel as loops over tiles on flat
buffers. They are what is compiled: named rewrites bring them from their plain form to one that is
printed statement by statement.

All addresses are affine offsets into a buffer, in elements; edge tiles are clipped by `Span`, never
by the addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from explorer.ir.decisions.tiling import Block, Micro
from explorer.ir.kernel import Affine, Const, IndexValue
from explorer.ir.scalar_functions import dtype_of_result
from explorer.ir.shapes.dims import Dim, Sizes, ceil_div, evaluate_dim
from explorer.ir.types import DType

REGISTER = "register"  # the level of a buffer that every thread has for itself
FARTHEST = "DRAM"  # what CPUs call their last level; a data sheet may have another name


@dataclass(frozen=True, slots=True)
class Buffer:
    """Flat memory. `kind`: input, constant, output, scratch (one a worker, or a thread block),
    packed (a constant laid out for `Contract`), or table (int64 offsets known at compile time).

    `level`: the name of the device's memory level that it lies in, or `REGISTER`. `streamed`: no
    cache holds it, so that stores go past them.
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


@dataclass(frozen=True, slots=True)
class Span:
    """`axis` runs over `base .. base + size`, clipped to `0 .. extent` where the flags say that it
    can be outside; in every task there are `least` points or more.
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
    """How the points of a statement are iterated over, `unroll` vectors of `lanes` at a time.

    `order`, vectors: "along" what is reduced, its lanes reduced at the end, or along a row that is
    mapped; "across" it, results in registers, or "rows", results in memory; "stacked", results of
    several rows side by side; "turned", square blocks change their axes in registers; "scan", a
    prefix within each vector. "blocks": a copy of square blocks of `lanes`, whose axes are swapped,
    `unroll` blocks beside each other. "sums in memory": one by one, the last spatial axis
    innermost. "unrolled": one by one, each point a statement of its own, those outside of a clip
    left out; what is reduced is iterated over around them.
    """

    order: str
    lanes: int = 1
    unroll: int = 1


@dataclass(frozen=True, slots=True)
class Threads:
    """The loop's values are dealt out to `count` threads: value number n, counted from the base, to
    those at place n mod `count`. Of loops inside of each other the places make the thread's number
    in its block, the last one fastest; threads past the product of the counts do nothing.
    """

    count: int


@dataclass(frozen=True, slots=True)
class For:
    """One iteration of the body for each value of the axis: in order, or by `threads` of a block.

    Threads go in any order from one `Sync` to the next. Loops that are not dealt out are gone
    through by all threads together; a `Sync` stands in no other.
    """

    span: Span
    body: tuple[Statement, ...]
    threads: Threads | None = None


@dataclass(frozen=True, slots=True)
class Sync:
    """No thread of the scope goes on until all are here, and then they see what each has written.

    `scope`: "block", or "warp" where a block is one warp.
    """

    scope: str = "block"


@dataclass(frozen=True, slots=True)
class Fill:
    """Every element of a buffer becomes `value`."""

    target: Buffer
    value: float


@dataclass(frozen=True, slots=True)
class Load:
    """Copy the part of a region that exists; with `Fill` before it, the rest is padding."""

    target: Fetch
    source: Fetch
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Pack:
    """`target[n // lanes][k][n % lanes] = source[n, k]`, zero where n is past its end: the panels
    of a micro-kernel. Neighbours along the depth lie in groups, as in `Packing`.
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
    """`target = combiner over `over` of expr` for every point of the spans; `onto`: of what the
    target holds and of these.
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
    """`target = combiner of expr over all of `over` up to this point`, for every point of the spans
    and of `over`; `exclusive`: without the point itself; `backwards`: from the end.
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
    """Maps and reductions in one loop over the same points, each with the same axes: what an
    earlier part makes is read at the same point only, what is reduced after the loop only.
    """

    parts: tuple[Map | Reduce, ...]
    form: LoopForm | None = None


@dataclass(frozen=True, slots=True)
class Border:
    """A window's axis along which a part of it may lie outside: the index is `first + step * r`,
    inside of `0 .. extent`.
    """

    axis: str
    first: Affine
    step: int
    extent: int


@dataclass(frozen=True, slots=True)
class Window:
    """A reduction over sliding windows, read where the data lies: `target = expr`, in which
    `reduction.target` stands for what is reduced: `data`, times `weights` where there are some, of
    those points of each window that lie inside of the borders.
    """

    reduction: Reduce
    data: Fetch
    weights: Fetch | None
    borders: tuple[Border, ...]
    target: Fetch
    expr: TileExpr

    @property
    def along(self) -> Span:
        """The axis of results beside each other."""
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
        """What the map reads besides the reduction."""
        return tuple(dict.fromkeys(f for f in fetches(self.expr) if f != self.reduction.target))


@dataclass(frozen=True, slots=True)
class Find:
    """`name = index` clamped into `0 .. extent - 1`, for the statements behind it: where a row lies
    that data says.
    """

    name: str
    index: TileExpr
    extent: Dim


@dataclass(frozen=True, slots=True)
class At:
    """The body once, with the axis at `index`, where the span has that value: what data selects,
    as a store with a combiner does, whose map reads its own target.
    """

    span: Span
    index: TileExpr
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Once:
    """The body depends on the first `level` tile variables alone: of tasks in a row that differ in
    the others, the first does it for all.
    """

    level: int
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Contract:
    """`acc[r, c] = sum over s, k of a[a_row(r) + segments[s] + k * a_step] * b[b_start + (s * depth
    + k) * b_step + c]`; small integers in groups of g: `a[... + e] * b[... + c * g + e]` for e < g.

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
    """Rows that lie a constant step apart in every tensor: those along the last axis for every
    point of the `outer` ones, or all of them. Where they are no multiple of the register tile's
    (`exact`), the last tile is moved back until it is full: some rows are computed twice.
    """

    outer: tuple[Span, ...]
    exact: bool


@dataclass(frozen=True, slots=True)
class Panels:
    """For each `micro.columns` columns, for each `micro.rows` of the flattened rows: contract, then
    map the micro-tile.

    In `epilogue`, `_r` is the row inside the micro-tile and `_j` the first column of the panel.
    `run` says how rows lie; None: each tile looks them up in `row_table`. `operands` are the
    elements that the epilogue stores, first, and reads, where full tiles do it on registers; none:
    it goes through the tile in L1. `prefetch` is what comes while a panel is read: the next
    "panel", the left operand's next "rows", or "" nothing.
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
)


@dataclass(frozen=True, slots=True)
class Grid:
    """One tile variable: the task number is split over these, the last one fastest."""

    variable: str
    axis: str
    tile: int
    extent: Dim

    @property
    def count(self) -> Dim:
        """How many tiles there are along the axis."""
        return ceil_div(self.extent, self.tile)


@dataclass(frozen=True, slots=True)
class Packing:
    """A constant laid out ahead: element `offset + index . strides` of the flat `source`, for every
    index of [batch..., column, depth...], moved to [batch..., columns / lanes, depth, lanes], zero
    past the last column. Groups are of neighbours along the depth, [..., depth / group, lanes,
    group], with zeros to the end of the last group of the last depth axis.
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
    """One task, as a function of the tile variables of `grid`: of a worker, or of a thread block.

    `block`: what rewrites for a GPU are to make of it.
    """

    grid: tuple[Grid, ...]
    body: tuple[Statement, ...]
    buffers: tuple[Buffer, ...]
    packings: tuple[Packing, ...] = ()
    tables: tuple[tuple[str, tuple[int, ...]], ...] = ()
    updates: bool = False  # whether what it reads may be what it writes
    block: Block | None = None

    def tasks(self, sizes: Sizes) -> int:
        """How many tasks there are under a binding."""
        total = 1
        for g in self.grid:
            total *= -(-evaluate_dim(g.extent, sizes) // g.tile)  # in numbers: 100 times as fast
        return total


def fetches(expr: TileExpr) -> tuple[Fetch, ...]:
    """Every element that an expression loads, those inside of data-dependent offsets included."""
    found: list[Fetch] = []
    todo: list[TileExpr] = [expr]
    while todo:
        match todo.pop():
            case Do(_, args):
                todo += reversed(args)
            case Fetch(_, _, dynamic) as fetch:
                found.append(fetch)
                todo += [e for e, _, _ in reversed(dynamic)]
    return tuple(found)


def dtype_of_tile(expr: TileExpr) -> DType:
    """The dtype of an expression."""
    match expr:
        case Const(_, dtype):
            return dtype
        case IndexValue():
            return "int64"
        case Fetch(buffer, _, _):
            return buffer.dtype
        case Do(op, args):
            return dtype_of_result(op, lambda n: dtype_of_tile(args[n]))
