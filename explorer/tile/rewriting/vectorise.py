"""Loop forms of every statement: square blocks for transposes, vectorised loops, or scalar loops.

Rows that data selects are looked up once before the loops. Runs of contiguous elements are copied
as memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from explorer.devices.model import Device
from explorer.ir.affine import Affine, var
from explorer.ir.combiners import COMBINERS
from explorer.ir.dims import Dim, product
from explorer.ir.dtypes import ITEM_BYTES, NARROW_FLOATS, DType, is_stored_otherwise
from explorer.ir.tile_program import (
    At,
    Buffer,
    Do,
    Fetch,
    Find,
    For,
    Load,
    LoopForm,
    Map,
    OnePass,
    Panels,
    Reduce,
    Scan,
    Span,
    Statement,
    TileExpr,
    TileProgram,
    dtype_of_tile,
    fetches,
)
from explorer.ir.tile_traversal import moved, substitute, variables_of, writes
from explorer.ops.interpreter.scalar import start_value
from explorer.tile.rewriting.collapse import collapse
from explorer.tile.rewriting.loop_form import scan_form, vector_form

SIDES = {1: 16, 2: 16, 4: 16, 8: 8}  # side of a square block, by the bytes of an element
BLOCKS_BESIDE = 4  # of consecutive cache lines; chosen, no measurement kept
LEAST_ROW_ELEMENTS = 8  # for vectors to pay; chosen, no measurement kept
PLACES = ("_r", "_j")  # variables of a register tile in an epilogue
FEW_POINTS = 16  # of a reduction that LLVM unrolls; chosen, no measurement kept


def vectorise(p: TileProgram, device: Device) -> TileProgram:
    """Choose the loop form of every statement."""
    forms = _Forms(device)
    return replace(p, body=tuple(x for s in p.body for x in forms.of(s)))


def with_loop_forms(s: Statement, device: Device) -> list[Statement]:
    """Return the statements, with loop forms, that replace a single one."""
    return _Forms(device).of(s)


class _Forms:
    """The statements of a program while they get their forms; looked-up rows are numbered."""

    def __init__(self, device: Device) -> None:
        """Create the rewrite for a device."""
        self.device, self.lookups = device, 0

    def of(self, s: Statement) -> list[Statement]:
        """Return the statements that replace one."""
        match s:
            case For(_, body) | At(_, _, body):
                return [replace(s, body=tuple(x for inner in body for x in self.of(inner)))]
            case Load(target, source, spans):
                return self.map(Map(target, spans, source))
            case Map():
                return self.map(s)
            case Reduce():
                return [self.reduce(s)]
            case OnePass(parts):
                vectorised = vector_form(s, self.device)
                return (
                    [vectorised]
                    if vectorised is not None
                    else [x for p in parts for x in self.of(p)]
                )
            case Scan():
                return self.scan(s)
            case Panels():
                return self.panels(s)
        return [s]

    def map(self, m: Map) -> list[Statement]:
        """Return a map or a copy in its form."""
        target, spans, expr = m.target, m.spans, m.expr
        turned = _transposed_axis(target, expr, spans)
        if turned is not None:
            spans, expr, (target,) = collapse(spans, expr, target)
            turned = _transposed_axis(target, expr, spans)
        if turned is not None:
            others = tuple(s for s in spans[:-1] if s is not turned)
            form = LoopForm("blocks", SIDES[ITEM_BYTES[target.buffer.dtype]], BLOCKS_BESIDE)
            return [Map(target, (*others, turned, spans[-1]), expr, form)]
        fixed = _lookup_axes(expr, spans)
        if fixed < len(spans):
            finds: list[Statement] = []
            rows = self.with_rows(expr, finds)
            inner = [*finds, *self.map(Map(target, spans[fixed:], rows))]
            for span in reversed(spans[:fixed]):
                inner = [For(span, tuple(inner))]
            return inner
        spans, expr, (target,) = collapse(spans, expr, target)
        target, expr = _as_bits(target, expr)
        plain = Map(target, spans, expr)
        return [vector_form(plain, self.device) or plain]

    def panels(self, s: Panels) -> list[Statement]:
        """Return a contraction whose epilogue looks up its row before the tiles, if invariant.

        A loop's trip has such a row. Otherwise LLVM loads the index again with each element, and
        does not vectorise.
        """
        finds: list[Statement] = []
        axes = {span.axis for span in (*s.rows, s.columns, *s.epilogue.spans)}
        expr = self.with_rows(s.epilogue.expr, finds, frozenset({*axes, *PLACES}), tuple(writes(s)))
        return [*finds, replace(s, epilogue=replace(s.epilogue, expr=expr))]

    def with_rows(
        self,
        expr: TileExpr,
        finds: list[Statement],
        inside: frozenset[str] = frozenset(),
        written: Collection[Buffer] = (),
    ) -> TileExpr:
        """Return the expression with its indirect addresses looked up before the loops inside.

        Addresses that depend on the axes `inside`, or on what the loops have `written`, stay.
        `y[i, j] = x[index[i], j]` becomes `row = index[i]; y[i, j] = x[row, j]`.
        """
        match expr:
            case Do(op, args):
                return Do(op, tuple(self.with_rows(a, finds, inside, written) for a in args))
            case Fetch(_, offset, dynamic) if dynamic:
                indices = [index for index, _, _ in dynamic]
                read = {f.buffer for index in indices for f in fetches(index)}
                used = frozenset[str]().union(*map(variables_of, indices))
                if used & inside or not read.isdisjoint(written):
                    return expr
                for index, stride, extent in dynamic:
                    name = f"_found{self.lookups}"
                    self.lookups += 1
                    finds.append(Find(name, index, extent))
                    offset = offset + var(name) * stride
                return replace(expr, offset=offset, dynamic=())
        return expr

    def reduce(self, s: Reduce) -> Statement:
        """Return a reduction in its form."""
        vectorised = vector_form(s, self.device)
        if vectorised is not None:
            return vectorised
        if _is_last_axis_innermost(s):
            return replace(s, form=LoopForm("sums in memory"))
        over, expr, _ = collapse(s.over, s.expr)
        return replace(s, over=over, expr=expr)

    def scan(self, s: Scan) -> list[Statement]:
        """Return a running reduction in its form; its axis is never split."""
        if s.over.size == 0:
            return []
        form = scan_form(s, self.device)
        if form is not None:
            return [form]
        dense = bool(s.spans) and s.target.offset.factor(s.spans[-1].axis) == 1
        return self.rows(s) if dense and _fits_memory(s) else [s]

    def rows(self, s: Scan) -> list[Statement]:
        """Return a scan row by row: each is the one before it combined with its own elements."""
        size, name = s.over.size, s.over.axis
        last = Affine((), size) - 1
        first, turn = (last, -1) if s.backwards else (Affine(), 1)
        neutral = start_value(s.combiner, s.dtype)
        row = neutral if s.exclusive else substitute(s.expr, {name: first})
        begin = self.map(Map(moved(s.target, {name: first}), s.spans, row))
        if not isinstance(size, int):  # the axis may be empty
            begin = [For(Span("_once", Affine(), 1, size, clip_high=True), tuple(begin))]
        t = f"_{name}"
        here, before = first + var(t) * turn, first + var(t) * turn - turn
        own = substitute(s.expr, {name: before if s.exclusive else here})
        new = Do(COMBINERS[s.combiner].step, (moved(s.target, {name: before}), own))
        more = self.map(Map(moved(s.target, {name: here}), s.spans, new))
        return [*begin, For(Span(t, Affine((), 1), size - 1, size), tuple(more))]


def _transposed_axis(target: Fetch, source: TileExpr, spans: tuple[Span, ...]) -> Span | None:
    """Return the axis of a transpose along which the source is dense, else None.

    The target is dense along the last axis, and the source is not.
    """
    if not isinstance(source, Fetch) or source.dynamic or not spans:
        return None
    if source.buffer.dtype != target.buffer.dtype:
        return None
    last = spans[-1].axis
    if target.offset.factor(last) != 1 or source.offset.factor(last) in (0, 1):
        return None
    return next(
        (
            s
            for s in spans[:-1]
            if source.offset.factor(s.axis) == 1 and target.offset.factor(s.axis) != 0
        ),
        None,
    )


def _lookup_axes(expr: TileExpr, spans: tuple[Span, ...]) -> int:
    """Return how many outer axes select the rows to read by data; all axes if no address does."""
    used = [v for f in fetches(expr) for i, _, _ in f.dynamic for v in variables_of(i)]
    is_indirect = any(f.dynamic for f in fetches(expr))
    last = max((n + 1 for n, s in enumerate(spans) if s.axis in used), default=0)
    return last if is_indirect else len(spans)


def _as_bits(target: Fetch, source: TileExpr) -> tuple[Fetch, TileExpr]:
    """Move unchanged values as bits, and drop a rounding that a store repeats."""
    dtype = target.buffer.dtype
    match source:
        case Do(op, (value,)) if op == f"cast_{dtype}" and dtype_of_tile(value) == "float32":
            return target, value if dtype in NARROW_FLOATS else source
    if not is_stored_otherwise(dtype) or not isinstance(source, Fetch):
        return target, source
    if source.buffer.dtype != dtype:
        return target, source
    bits = "uint8" if ITEM_BYTES[dtype] == 1 else "uint16"
    return _with_dtype(target, bits), _with_dtype(source, bits)


def _with_dtype(f: Fetch, dtype: DType) -> Fetch:
    return replace(f, buffer=replace(f.buffer, dtype=dtype))


def _is_last_axis_innermost(s: Reduce) -> bool:
    """Return True if the last spatial axis should go innermost.

    The loads are dense along it, and those along the last reduced axis are the same for a whole
    row.

    Few reduced points with a fixed number are left to LLVM, which unrolls them and keeps the sums
    in registers.
    """
    loads = fetches(s.expr)
    sizes = [o.size for o in s.over]
    if all(isinstance(n, int) for n in sizes) and product(tuple(sizes)) <= FEW_POINTS:
        return False
    if is_stored_otherwise(s.target.buffer.dtype):  # partial sums must not be rounded
        return False
    if not s.spans:
        return False
    last, inner = s.spans[-1], s.over[-1].axis
    narrow = isinstance(last.size, int) and last.size < LEAST_ROW_ELEMENTS

    def reduces(f: Fetch) -> bool:
        """Return True if a load is dense along the reduced axis.

        One number or a window for a row of results does no harm.
        """
        row = f.offset.factor(last.axis) in (0, 1) and not narrow
        return f.offset.factor(inner) == 1 and not row

    return any(f.offset.factor(last.axis) == 1 for f in loads) and not any(map(reduces, loads))


def _fits_memory(s: Scan) -> bool:
    """Return True if partial reductions may lie in memory: stored as they are computed."""
    return not is_stored_otherwise(s.target.buffer.dtype) and s.dtype != "bool"


MOST_INSIDE_ELEMENTS = 25  # in one step of the outermost axis: a bound on code size, chosen


def memory_runs(steps: Sequence[Dim], sizes: Sequence[Dim]) -> tuple[int, ...] | None:
    """Return the axes that form one run of elements, outermost in memory first, by number.

    The axes are the columns, first, and those of a depth. The outermost is the columns' axis, which
    has no other place here, or the first whose steps cover many elements. None: no axis is inside
    of it, or no square block.

    Steps 4608, 3, 1, 9 and sizes 32, 3, 3, 512: 3, 1, 2. Steps 9, 3, 1, 4608: 0, 1, 2.
    """
    run: list[int] = []
    step = 1
    while True:
        axes = (n for n, (s, size) in enumerate(zip(steps, sizes)) if s == step and size != 1)
        axis = next(axes, None)
        if axis is None:
            return None
        run.append(axis)
        size = sizes[axis]
        if axis == 0 or not isinstance(size, int) or step * size > MOST_INSIDE_ELEMENTS:
            break
        step *= size
    if len(run) == 1 or (isinstance(size, int) and size < SIDES[4]):
        return None
    return tuple(reversed(run))
