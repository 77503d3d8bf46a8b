"""The statements of tile programs, and the spans that they run over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from explorer.ir.affine import Affine
from explorer.ir.decisions.tiling import Micro
from explorer.ir.shapes.dims import Dim
from explorer.ir.tile_programs.elements import Buffer, Fetch, TileExpr, fetches
from explorer.ir.types import DType


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
    left out; what is reduced is iterated over around them. "matrix": sums of products of a whole
    warp, piece by piece on its matrix unit (`explorer.tile.gpu.matrix_units`).
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
class Shuffle:
    """What `lanes` threads beside each other have in a register becomes, in each of them, the
    combination of all: by a power of two, pair by pair, within a warp and through no memory.

    All threads of a block come to it; it is no Sync of what they have in memory.
    """

    target: Fetch
    lanes: int
    combiner: str
    dtype: DType


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
    `run` says how rows lie; None: each tile looks them up in `row_table`, and so those of operands
    that have no one distance from row to row. `operands` are the elements that the epilogue stores,
    first, and reads, where full tiles do it on registers; none: it goes through the tile in L1.
    `prefetch` is what comes while a panel is read: the next "panel", the left operand's next
    "rows", or "" nothing.
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
