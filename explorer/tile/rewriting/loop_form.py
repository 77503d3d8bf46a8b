"""Loop forms of maps and reductions: vectorised loops, chosen once and written into the statement.

A vectorised loop needs loads that are dense along an axis or the same for all of it. Maps may also
have loads that are dense along another axis than what is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.combiners import COMBINERS
from explorer.ir.dims import Dim, product
from explorer.ir.dtypes import SMALL_INTEGERS, DType, computed, is_float, is_stored_otherwise
from explorer.ir.kernel import Const, IndexValue
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS, VECTOR_DTYPES
from explorer.ir.tile_program import (
    Do,
    Fetch,
    LoopForm,
    Map,
    OnePass,
    Reduce,
    Scan,
    Span,
    TileExpr,
    dtype_of_tile,
    fetches,
)
from explorer.ir.tile_traversal import Part
from explorer.tile.rewriting.collapse import collapse

CELLS = (*VECTOR_DTYPES, "float16", "bfloat16")  # element types of vector loads and stores
BYTES = ("int8", "uint8", *SMALL_INTEGERS)  # those of vector loads that are converted at once
POWERS = (2.0, 3.0, 0.5, -1.0, 1.0)
LEAST_SIDE_ELEMENTS = 8  # for a block in registers to pay; chosen, no measurement kept
FEW_ELEMENTS = 8  # of a reduction left to LLVM, which unrolls it; chosen, no measurement kept
OPERAND_REGISTER_SHARE = 0.5  # for loads and stores of a point; chosen
LEAST_ROWS = 16  # for results in memory to pay; chosen, no measurement kept
LEAST_STACK_ROWS = 4  # for reducing rows together to pay; chosen, no measurement kept
FUNCTION_INSTRUCTIONS = 12  # of functions like exp, about; chosen


@dataclass(frozen=True, slots=True)
class Pass:
    """One loop: for all `spans`, for all `over`, maps stored in order and values reduced."""

    spans: tuple[Span, ...]
    over: tuple[Span, ...]
    maps: tuple[tuple[Fetch, TileExpr], ...]
    reductions: tuple[Reduce, ...]

    def axes(self, order: str) -> tuple[Span, ...]:
        """Return the loops of the vectorised nest."""
        if order in ("across", "rows"):
            return (*self.over, self.spans[-1])
        if order == "stacked":
            return (self.spans[-1], *self.over)
        if not self.reductions:
            return self.over[-2 if order == "turned" else -1 :]
        return self.over

    def around(self, order: str) -> tuple[Span, ...]:
        """Return the loops outside of the nest."""
        if not self.reductions:
            return self.over[: -2 if order == "turned" else -1]
        return self.spans[:-1] if order in ("across", "rows", "stacked") else self.spans

    def statement(self, several: bool, form: LoopForm) -> Part | OnePass:
        """Return this loop as a statement."""
        every = (*self.spans, *self.over)
        maps = tuple(Map(target, every, expr) for target, expr in self.maps)
        reductions = tuple(replace(f, spans=self.spans, over=self.over) for f in self.reductions)
        if several:
            return OnePass((*maps, *reductions), form)
        return replace(maps[0], form=form) if maps else replace(reductions[0], form=form)

    @property
    def exprs(self) -> tuple[TileExpr, ...]:
        """Every expression, those of the maps first."""
        return (*(e for _, e in self.maps), *(f.expr for f in self.reductions))

    @property
    def loads(self) -> tuple[Fetch, ...]:
        """Every element that is read."""
        return tuple(f for e in self.exprs for f in fetches(e))

    @property
    def targets(self) -> tuple[Fetch, ...]:
        """Every element that is written, those of the maps first."""
        return (*(t for t, _ in self.maps), *(f.target for f in self.reductions))


def as_pass(s: Part | OnePass) -> Pass:
    """Return a statement as one loop."""
    parts = s.parts if isinstance(s, OnePass) else (s,)
    maps = tuple((p.target, p.expr) for p in parts if isinstance(p, Map))
    reductions = tuple(p for p in parts if isinstance(p, Reduce))
    spans, over = (
        ((), parts[0].spans) if not reductions else (reductions[0].spans, reductions[0].over)
    )
    return Pass(spans, over, maps, reductions)


def collapsed_pass(s: Part | OnePass) -> Pass:
    """Return a statement as one loop, its axes joined where they are contiguous in memory."""
    return _collapsed(_collapsed(as_pass(s), "over"), "spans")


def _collapsed(p: Pass, which: str) -> Pass:
    """Return a pass with its `over` or `spans` axes joined where possible."""
    spans = p.over if which == "over" else p.spans
    if len(spans) < 2:
        return p
    spans, bundle, targets = collapse(spans, Do("all", p.exprs), *p.targets)
    assert isinstance(bundle, Do)
    count = len(p.maps)
    maps = tuple(zip(targets[:count], bundle.args[:count], strict=True))
    changed = zip(p.reductions, targets[count:], bundle.args[count:], strict=True)
    reductions = tuple(replace(f, target=t, expr=e) for f, t, e in changed)
    collapsed = replace(p, maps=maps, reductions=reductions)
    return replace(collapsed, over=spans) if which == "over" else replace(collapsed, spans=spans)


def vector_form(s: Part | OnePass, device: Device) -> Part | OnePass | None:
    """Return the statement as a vectorised loop; None if it has no such form.

    Its axes are joined and in the order in which they run.
    """
    ordered = _with_order(collapsed_pass(s), device)
    if ordered is None or not all(map(_is_vectorisable, ordered[0].exprs)):
        return None
    p, order = ordered
    if order == "along" and _is_row_batch(p, device):
        order = "stacked"
    form = LoopForm(order, _lanes(p, device), _unroll_factor(p, order, device))
    return p.statement(isinstance(s, OnePass), form)


def scan_form(s: Scan, device: Device) -> Scan | None:
    """Return a running reduction along a dense axis, a prefix within each vector; else None."""
    p = Pass(s.spans, (s.over,), ((s.target, s.expr),), ())
    if s.target.buffer.dtype not in CELLS or not _reduces_vectors(s):
        return None
    if not _is_dense(p, s.over) or not _is_vectorisable(s.expr):
        return None
    reduction = Reduce(s.target, s.spans, (s.over,), s.combiner, s.expr, s.dtype)
    p = replace(p, maps=(), reductions=(reduction,))
    return replace(s, form=LoopForm("scan", _lanes(p, device), _unroll_factor(p, "scan", device)))


def _with_order(p: Pass, device: Device) -> tuple[Pass, str] | None:
    """Return the pass with its loops in execution order, and that order's name."""
    if any(t.buffer.dtype not in CELLS or t.dynamic for t in p.targets):
        return None
    if any(f.dynamic or f.buffer.dtype not in (*CELLS, *BYTES) for f in p.loads):
        return None
    if not p.reductions:
        return _map_order(p)
    order = _reduction_order(p, device)
    return None if order is None else (p, order)


def _map_order(p: Pass) -> tuple[Pass, str] | None:
    """Choose the vector axis of maps: one that all maps store densely, the last if possible."""
    for last in reversed(p.over):
        if any(_factor(t, last.axis) != 1 for t in p.targets):
            continue
        others = tuple(s for s in p.over if s != last)
        if _is_dense(p, last):
            return replace(p, over=(*others, last)), "along"
        across = _transpose_axis(p, last)
        if across is not None:
            others = tuple(s for s in others if s != across)
            return replace(p, over=(*others, across, last)), "turned"
    return None


def _transpose_axis(p: Pass, last: Span) -> Span | None:
    """Return the longest axis of all loads that are not dense along the last one."""
    turned = [f for f in p.loads if _factor(f, last.axis) not in (0, 1)]
    if size_of(last) < LEAST_SIDE_ELEMENTS or {f.buffer for f in p.loads} & {
        t.buffer for t in p.targets
    }:
        return None
    good = [
        s
        for s in p.over
        if s != last
        and size_of(s) >= LEAST_SIDE_ELEMENTS
        and all(_factor(f, s.axis) == 1 for f in turned)
    ]
    return max(good, key=size_of, default=None) if turned else None


def _reduction_order(p: Pass, device: Device) -> str | None:
    """Choose whether vectors lie along the reduced axis or across it: where the loads are dense."""
    if not all(map(_reduces_vectors, p.reductions)):
        return None
    if not p.over:  # sums of one element each
        return None
    along = _is_dense(p, p.over[-1])
    across = bool(p.spans) and _is_dense(p, p.spans[-1])
    if along and across:
        return "across" if size_of(p.spans[-1]) >= size_of(p.over[-1]) else "along"
    if across:
        return _across_order(p, device)
    short = product(tuple(o.size for o in p.over))
    if not along or (isinstance(short, int) and short <= FEW_ELEMENTS and not p.maps):
        return None
    return "along"


def _reduces_vectors(f: Reduce | Scan) -> bool:
    """Return True if a reduction's combiner has a vector form on its computed type."""
    return computed(f.dtype) in CELLS and COMBINERS[f.combiner].has_vectors_of(computed(f.dtype))


def _across_order(p: Pass, device: Device) -> str:
    """Choose whether results stay in registers, or in memory if rows are long and many."""
    narrow = any(is_stored_otherwise(f.target.buffer.dtype) for f in p.reductions)
    if narrow or size_of(p.over[-1]) < LEAST_ROWS or size_of(p.spans[-1]) <= 8 * _lanes(p, device):
        return "across"
    return "rows"


def size_of(s: Span) -> int:
    """Return the points of an axis; 1 << 30 if unknown."""
    return s.size if isinstance(s.size, int) else 1 << 30


def _is_dense(p: Pass, along: Span) -> bool:
    """Return True if an axis can be vectorised.

    Every load is dense along it or does not move, stores are dense, and something moves.
    """
    name = along.axis
    moves = [_factor(f, name) for f in p.loads]
    if any(m not in (0, 1) for m in moves) or any(_factor(t, name) != 1 for t, _ in p.maps):
        return False
    within = name in {o.axis for o in p.over}
    if any(_factor(f.target, name) != (0 if within else 1) for f in p.reductions):
        return False
    return 1 in moves


def _is_row_batch(p: Pass, device: Device) -> bool:
    """Return True if the results of a few rows are contiguous and fit one vector."""
    if not p.reductions or not p.spans:
        return False
    row = p.spans[-1]
    few = LEAST_STACK_ROWS <= size_of(row) <= _lanes(p, device) and not row.clip_low
    return few and all(
        _factor(f.target, row.axis) == 1 and not is_stored_otherwise(f.target.buffer.dtype)
        for f in p.reductions
    )


def _factor(f: Fetch, axis: str) -> Dim:
    factor = f.offset.factor(axis)
    return factor if isinstance(factor, int) else -1


def _is_vectorisable(e: TileExpr) -> bool:
    """Return True if every function and dtype of an expression has a vector form."""
    match e:
        case Do(op, args):
            dtype = computed(dtype_of_tile(args[0]))
            source = dtype_of_tile(args[1]) if op == "where" else dtype
            if is_small_power(e):
                return is_float(dtype) and _is_vectorisable(args[0])
            if op.startswith("cast_") and is_float(dtype) and not is_float(op[5:]):
                return False  # overflow wraps
            if dtype == "float64" and op in ("cast_float16", "cast_bfloat16"):
                return False  # float32 in between would round twice
            good = _has_vectors(op, dtype) and computed(source) in (*CELLS, *BYTES)
            return good and all(map(_is_vectorisable, args))
        case Const(value, dtype):
            return isinstance(value, (int, float)) and dtype in CELLS
        case IndexValue() | Fetch():
            return True


def _lanes(p: Pass, device: Device) -> int:
    """Return how many elements fit one vector register, of the widest type in the loop."""
    wide = any(_is_wide(e) for e in p.exprs)
    return max(1, device.lanes // (2 if wide else 1))


def _is_wide(e: TileExpr) -> bool:
    inner = any(_is_wide(a) for a in e.args) if isinstance(e, Do) else False
    return inner or dtype_of_tile(e) == "float64"


def _has_vectors(op: str, dtype: DType) -> bool:
    """Return True if a function of elements of a dtype has a vector form."""
    if op.startswith("cast_"):
        return dtype in (*VECTOR_DTYPES, *BYTES) and op[5:] in CELLS
    return not op.startswith("bits_") and SCALAR_FUNCTIONS[op].has_vectors_of(dtype)


def _unroll_factor(p: Pass, order: str, device: Device) -> int:
    """Return how many vectors are computed at a time: fewer for more instructions or registers."""
    axes = p.axes(order)
    last = axes[-1]
    work = sum(
        3 if COMBINERS[f.combiner].picks else 1 for f in p.reductions
    ) + _instruction_estimate(p, last.axis)
    unroll = 8 if work <= 4 else 4 if work <= FUNCTION_INSTRUCTIONS else 2
    if len(p.loads) + len(p.maps) > device.registers * OPERAND_REGISTER_SHARE:
        unroll = 1
    if isinstance(last.size, int) and not (last.clip_low or last.clip_high):
        unroll = max(1, min(unroll, last.size // _lanes(p, device)))
    return unroll


def _instruction_estimate(p: Pass, axis: str) -> int:
    """Return an estimate of the instructions of a vector; equal parts count once."""
    costs: dict[TileExpr, tuple[int, bool]] = {}

    def varies(e: TileExpr) -> bool:
        if e in costs:
            return costs[e][1]
        match e:
            case Fetch():
                costs[e] = 0, e.offset.factor(axis) != 0
            case IndexValue(index):
                costs[e] = 0, index.factor(axis) != 0
            case Const():
                costs[e] = 0, False
            case Do(op, args):
                moving = any([varies(a) for a in (args[:1] if is_small_power(e) else args)])
                long = op == "pow" or (op in SCALAR_FUNCTIONS and any(SCALAR_FUNCTIONS[op].ulp))
                costs[e] = (FUNCTION_INSTRUCTIONS if long else 1) if moving else 0, moving
        return costs[e][1]

    for target, e in p.maps:
        varies(e)
        costs[target] = 0, costs[e][1]  # later parts use the stored value
    for f in p.reductions:
        varies(f.expr)
    return sum(n for n, _ in costs.values())


def is_small_power(e: Do) -> bool:
    """Return True for a power that is a few products, or a root."""
    return e.op == "pow" and isinstance(e.args[1], Const) and e.args[1].value in POWERS
