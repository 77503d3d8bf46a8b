"""Maps and reductions as loops over vectors, where every load is dense along an axis or the same
for all of it; and maps of which some loads are dense along another axis than what is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from explorer.codegen.elementary import ELEMENTARY
from explorer.codegen.emitter import Emitter
from explorer.codegen.expressions import affine_text, dim_text, dtype_of_tile
from explorer.codegen.loops import collapse
from explorer.codegen.nest import Folded, Nest, Node, Operand, Stored
from explorer.codegen.terms import has
from explorer.codegen.vector_operations import BORDER, CELLS, POWERS, known
from explorer.ir.dims import Dim, product
from explorer.ir.dtypes import ITEM_BYTES, computed, is_float, is_stored_otherwise
from explorer.ir.kernel import Affine, Const, IndexValue, var
from explorer.ir.tile_program import (
    Do,
    Fetch,
    Map,
    OnePass,
    Reduce,
    Scan,
    Span,
    TileExpr,
    fetches,
)
from explorer.roller.streams import STREAM

BLOCK = 8  # turns of a loop that are worth a block in registers
FEW = 8  # results of a fold this short are left to LLVM, which takes several at once
MANY = 16  # elements that are read and written at a point
PAGE = 1 << 14  # bytes of a row that is asked for while the one before it is folded
LONG = 16  # rows that are worth a trip of the results to memory
LEAST_STACK = 4  # rows that are worth folding together
WORK = 12  # of exp and its like, in instructions


@dataclass(frozen=True, slots=True)
class Pass:
    """One loop: for all `spans`, for all `over`, maps stored in order and values folded."""

    spans: tuple[Span, ...]
    over: tuple[Span, ...]
    maps: tuple[tuple[Fetch, TileExpr], ...]
    folds: tuple[Reduce, ...]

    @property
    def exprs(self) -> tuple[TileExpr, ...]:
        """Every expression, those of the maps first."""
        return (*(e for _, e in self.maps), *(f.expr for f in self.folds))

    @property
    def loads(self) -> tuple[Fetch, ...]:
        """Every element that is read."""
        return tuple(f for e in self.exprs for f in fetches(e))

    @property
    def targets(self) -> tuple[Fetch, ...]:
        """Where values go, those of the maps first."""
        return (*(t for t, _ in self.maps), *(f.target for f in self.folds))


def pass_of(s: Map | Reduce | OnePass) -> Pass:
    """A statement as one loop, its axes joined where they are one in memory."""
    parts = s.parts if isinstance(s, OnePass) else (s,)
    maps = tuple((p.target, p.expr) for p in parts if isinstance(p, Map))
    folds = tuple(p for p in parts if isinstance(p, Reduce))
    spans, over = ((), parts[0].spans) if not folds else (folds[0].spans, folds[0].over)
    found = Pass(spans, over, maps, folds)
    return _collapsed(_collapsed(found, "over"), "spans")


def _collapsed(p: Pass, which: str) -> Pass:
    spans = p.over if which == "over" else p.spans
    if len(spans) < 2:
        return p
    spans, whole, targets = collapse(spans, Do("all", p.exprs), *p.targets)
    assert isinstance(whole, Do)
    count = len(p.maps)
    maps = tuple(zip(targets[:count], whole.args[:count], strict=True))
    rest = zip(p.folds, targets[count:], whole.args[count:], strict=True)
    folds = tuple(replace(f, target=t, expr=e) for f, t, e in rest)
    found = replace(p, maps=maps, folds=folds)
    return replace(found, over=spans) if which == "over" else replace(found, spans=spans)


def vector_loop(e: Emitter, s: Map | Reduce | OnePass) -> bool:
    """Print a statement as vector loops; False, and nothing printed, where it has no such form."""
    found = _vector_form(s)
    if found is not None:
        _Plan(e, *found).emit()
    return found is not None


def has_vector_loop(s: Map | Reduce | OnePass) -> bool:
    """Whether a statement can be printed as vector loops."""
    return _vector_form(s) is not None


def _vector_form(s: Map | Reduce | OnePass) -> tuple[Pass, str] | None:
    found = _ordered(pass_of(s))
    if found is None or not all(map(_is_known, found[0].exprs)):
        return None
    return found


def vector_scan(e: Emitter, s: Scan) -> bool:
    """Print a running fold along what is dense, a prefix within each vector; False where it is
    not dense.
    """
    fold = Reduce(s.target, s.spans, (s.over,), s.combiner, s.expr, s.dtype)
    p = Pass(s.spans, (s.over,), ((s.target, s.expr),), ())
    if s.dtype == "bool" or s.target.buffer.dtype not in CELLS or computed(s.dtype) not in CELLS:
        return False
    if not _is_dense(p, s.over) or not _is_known(s.expr):
        return False
    order = " ".join(
        ("scan", *(["backwards"] if s.backwards else []), *(["exclusive"] if s.exclusive else []))
    )
    _Plan(e, replace(p, maps=(), folds=(fold,)), order).emit()
    return True


def _ordered(p: Pass) -> tuple[Pass, str] | None:
    """The pass with its loops in the order in which they run, and that order's name."""
    if any(t.buffer.dtype not in CELLS or t.dynamic for t in p.targets):
        return None
    if any(f.dynamic or f.buffer.dtype not in CELLS for f in p.loads):
        return None
    if not p.folds:
        return _mapped(p)
    order = _folded(p)
    return None if order is None else (p, order)


def _mapped(p: Pass) -> tuple[Pass, str] | None:
    """Vectors lie along what all maps store densely: the last axis if it is one."""
    for last in reversed(p.over):
        if any(_factor(t, last.axis) != 1 for t in p.targets):
            continue
        others = tuple(s for s in p.over if s != last)
        if _is_dense(p, last):
            return replace(p, over=(*others, last)), "along"
        across = _other_axis(p, last)
        if across is not None:
            others = tuple(s for s in others if s != across)
            return replace(p, over=(*others, across, last)), "turned"
    return None


def _other_axis(p: Pass, last: Span) -> Span | None:
    """The longest axis along which all loads are dense that are not dense along the last one."""
    turned = [f for f in p.loads if _factor(f, last.axis) not in (0, 1)]
    if _size(last) < BLOCK or {f.buffer for f in p.loads} & {t.buffer for t in p.targets}:
        return None
    good = [
        s
        for s in p.over
        if s != last and _size(s) >= BLOCK and all(_factor(f, s.axis) == 1 for f in turned)
    ]
    return max(good, key=_size, default=None) if turned else None


def _folded(p: Pass) -> str | None:
    """Along what is folded, or across: where the loads are dense."""
    if any(f.dtype == "bool" or computed(f.dtype) not in CELLS for f in p.folds):
        return None
    if not p.over:  # sums of one element each
        return None
    along = _is_dense(p, p.over[-1])
    across = bool(p.spans) and _is_dense(p, p.spans[-1])
    if along and across:
        return "across" if _size(p.spans[-1]) >= _size(p.over[-1]) else "along"
    if across:
        return _across(p)
    short = product(tuple(o.size for o in p.over))
    if not along or (isinstance(short, int) and short <= FEW and not p.maps):
        return None
    return "along"


def _across(p: Pass) -> str:
    """Results stay in registers, or, where rows are long and many, in memory."""
    narrow = any(is_stored_otherwise(f.target.buffer.dtype) for f in p.folds)
    if narrow or _size(p.over[-1]) < LONG or _size(p.spans[-1]) <= 8 * _lanes(p):
        return "across"
    return "rows"


def _size(s: Span) -> int:
    return s.size if isinstance(s.size, int) else 1 << 30


def _is_dense(p: Pass, along: Span) -> bool:
    """Every load is dense along an axis or does not move, stores are dense, and something moves."""
    name = along.axis
    moves = [_factor(f, name) for f in p.loads]
    if any(m not in (0, 1) for m in moves) or any(_factor(t, name) != 1 for t, _ in p.maps):
        return False
    within = name in {o.axis for o in p.over}
    if any(_factor(f.target, name) != (0 if within else 1) for f in p.folds):
        return False
    return 1 in moves


def _is_stack(p: Pass) -> bool:
    """Whether the results of a few rows lie side by side and are one vector."""
    if not p.folds or not p.spans:
        return False
    row = p.spans[-1]
    few = LEAST_STACK <= _size(row) <= _lanes(p) and not row.clip_low
    return few and all(
        _factor(f.target, row.axis) == 1 and not is_stored_otherwise(f.target.buffer.dtype)
        for f in p.folds
    )


def _factor(f: Fetch, axis: str) -> Dim:
    factor = f.offset.factor(axis)
    return factor if isinstance(factor, int) else -1


def _is_known(e: TileExpr) -> bool:
    match e:
        case Do(op, args):
            dtype = computed(dtype_of_tile(args[0]))
            source = dtype_of_tile(args[1]) if op == "where" else dtype
            if op == "pow" and isinstance(args[1], Const) and args[1].value in POWERS:
                return is_float(dtype) and _is_known(args[0])
            if op.startswith("cast_") and is_float(dtype) and not is_float(op[5:]):
                return False  # what is too large wraps
            if dtype == "float64" and op in ("cast_float16", "cast_bfloat16"):
                return False  # by way of float32 it would be rounded twice
            good = known(op, dtype) and computed(source) in CELLS
            return good and all(map(_is_known, args))
        case Const(value, dtype):
            return isinstance(value, (int, float)) and dtype in CELLS
        case IndexValue() | Fetch():
            return True


def _lanes(p: Pass) -> int:
    """How many elements are one vector register of the widest type in the loop."""
    wide = any(_is_wide(e) for e in p.exprs)
    return (8 if wide else 16) // (1 if has("avx512f") else 2)


def _is_wide(e: TileExpr) -> bool:
    inner = any(_is_wide(a) for a in e.args) if isinstance(e, Do) else False
    return inner or dtype_of_tile(e) == "float64"


@dataclass(slots=True)
class _Plan:
    """A nest while it is put together."""

    e: Emitter
    p: Pass
    order: str
    operands: list[Operand] = field(default_factory=list)
    bases: dict[tuple[str, Affine], int] = field(default_factory=dict)
    distances: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    numbers: dict[TileExpr, int] = field(default_factory=dict)

    def emit(self) -> None:
        """The loops around the nest, and its call."""
        p, e = self.p, self.e
        across = self.order in ("across", "rows")
        order = "stacked" if self.order == "along" and _is_stack(p) else self.order
        inside = (*p.over, p.spans[-1]) if across else p.over
        outside = p.spans[:-1] if across else p.spans
        if order == "stacked":
            inside, outside = (p.spans[-1], *p.over), p.spans[:-1]
        if not p.folds:
            depth = 2 if self.order == "turned" else 1
            inside, outside = p.over[-depth:], p.over[:-depth]
        for span in outside:
            e.loop(span)
        starts = {s.axis: self.start(s) for s in inside}
        axes = tuple(s.axis for s in inside)
        stores = tuple(self.store(t, x, axes, starts) for t, x in p.maps)
        folds = tuple(self.fold(f, axes, starts) for f in p.folds)
        counts = tuple(_count(s) for s in inside)
        turns = [self.turns(s, starts[s.axis]) for s, n in zip(inside, counts) if n is None]
        work = sum(_work(n) for n in self.nodes) + sum(
            3 if f.combiner in ("max", "min") else 1 for f in folds
        )
        unroll = 8 if work <= 4 else 4 if work <= WORK else 2
        if len(self.p.loads) + len(stores) > MANY:  # they would not stay in registers
            unroll = 1
        last = counts[-1]
        lanes = _lanes(p)
        if last is not None:
            unroll = max(1, min(unroll, last // lanes))
        bases, operands = self.addresses()
        nest = Nest(
            order,
            lanes,
            unroll,
            counts,
            len(bases),
            operands,
            tuple(self.nodes),
            stores,
            folds,
        )
        e.line(f"{self.named(nest)}(({', '.join((*bases, *turns, *self.distances))},))")

    def addresses(self) -> tuple[list[str], tuple[Operand, ...]]:
        """The addresses that are passed, and the operands by how far from them they begin: what
        lies a known distance apart shares one.
        """
        least = [min(o.first for o in self.operands if o.base == n) for n in range(len(self.bases))]
        text = []
        for (name, terms), first in zip(self.bases, least, strict=True):
            offset = affine_text(terms + first)
            text.append(f"{name} + ({offset}) * {self.item_bytes(name)}" if name else offset)
        moved = (replace(o, first=o.first - least[o.base]) for o in self.operands)
        return text, tuple(moved)

    def item_bytes(self, name: str) -> int:
        """The bytes of an element of a buffer."""
        every = (*self.p.loads, *self.p.targets)
        return ITEM_BYTES[next(f.buffer.dtype for f in every if f.buffer.name == name)]

    def named(self, nest: Nest) -> str:
        """The name of a nest in the header; equal ones are one."""
        text = f" = vector_nest({nest!r})"
        for line in self.e.header:
            if line.endswith(text):
                return line.removesuffix(text)
        name = f"nest{len(self.e.header)}"
        self.e.header.append(name + text)
        return name

    def start(self, s: Span) -> Affine:
        """The first value of an axis."""
        if not s.clip_low:
            return s.base
        name = f"_first{self.e.expressions}"
        self.e.expressions += 1
        self.e.line(f"{name} = max({affine_text(s.base)}, 0)")
        return var(name)

    def turns(self, s: Span, start: Affine) -> str:
        """How many values an axis has."""
        if not (s.clip_low or s.clip_high):
            return dim_text(s.size)
        end = affine_text(s.base + s.size)
        end = f"min({end}, {dim_text(s.extent)})" if s.clip_high else end
        return f"max({end} - ({affine_text(start)}), 0)"

    def operand(
        self, f: Fetch | IndexValue, axes: tuple[str, ...], starts: dict[str, Affine]
    ) -> int:
        """The number of what is read or written."""
        index = f.offset if isinstance(f, Fetch) else f.index
        moved = index.substitute(starts)
        factors = tuple(index.factor(a) for a in axes)
        steps = tuple(s if isinstance(s, int) else None for s in factors)
        self.distances += [dim_text(s) for s in factors if not isinstance(s, int)]
        name, dtype = (f.buffer.name, f.buffer.dtype) if isinstance(f, Fetch) else ("", "")
        first = moved.const if name and isinstance(moved.const, int) else 0
        key = (name, moved - first if name else moved)
        base = self.bases.setdefault(key, len(self.bases))
        turned = self.order == "turned" and name != "" and steps[-1] not in (0, 1)
        ahead = self.ahead(f, steps) if isinstance(f, Fetch) else 0
        self.operands.append(Operand(dtype, steps, base, first, turned, ahead))
        return len(self.operands) - 1

    def ahead(self, f: Fetch, steps: tuple[int | None, ...]) -> int:
        """How far the next row of an operand lies that no cache holds, where rows are folded."""
        row = _size(self.p.over[-1]) * ITEM_BYTES[f.buffer.dtype]
        far = f.buffer.level == STREAM and f.buffer.kind == "input"
        return row if far and self.p.folds and steps == (1,) and row <= PAGE else 0

    def store(
        self, target: Fetch, expr: TileExpr, axes: tuple[str, ...], starts: dict[str, Affine]
    ) -> Stored:
        """What one map stores; later parts take the value and not the element."""
        node = self.node(expr, axes, starts)
        self.numbers[target] = node
        number = self.operand(target, axes, starts)
        steps = self.operands[number].steps[:-1]
        each = ITEM_BYTES[target.buffer.dtype]
        whole = all(s is not None and s * each % BORDER == 0 for s in steps)
        return Stored(number, node, whole and target.buffer.level == STREAM)

    def fold(self, f: Reduce, axes: tuple[str, ...], starts: dict[str, Affine]) -> Folded:
        """What one reduction folds."""
        node = self.node(f.expr, axes, starts)
        place = self.operand(f.target, axes, starts)
        return Folded(place, node, f.combiner, computed(f.dtype))

    def node(self, x: TileExpr, axes: tuple[str, ...], starts: dict[str, Affine]) -> int:
        """The number of an expression's value."""
        if x in self.numbers:
            return self.numbers[x]
        match x:
            case Fetch():
                varies = x.offset.factor(axes[-1]) != 0
                made = Node("load", x.buffer.dtype, (self.operand(x, axes, starts),), "", varies)
            case IndexValue(index):
                varies = index.factor(axes[-1]) != 0
                made = Node("index", "int64", (self.operand(x, axes, starts),), "", varies)
            case Const():
                made = Node("const", x.dtype, (), _text(x), False)
            case Do(op, args):
                small = op == "pow" and isinstance(args[1], Const) and args[1].value in POWERS
                given = tuple(self.node(a, axes, starts) for a in (args[:1] if small else args))
                varies = any(self.nodes[a].varies for a in given)
                value = _text(args[1]) if small and isinstance(args[1], Const) else ""
                made = Node(op, dtype_of_tile(args[0]), given, value, varies)
        self.nodes.append(made)
        self.numbers[x] = len(self.nodes) - 1
        return self.numbers[x]


def _text(c: Const) -> str:
    """A number that reads back as the same."""
    assert isinstance(c.value, (int, float))
    return float(c.value).hex() if is_float(c.dtype) else str(int(c.value))


def _count(s: Span) -> int | None:
    return s.size if isinstance(s.size, int) and not (s.clip_low or s.clip_high) else None


def _work(n: Node) -> int:
    """About how many instructions a vector takes."""
    if n.op in ("load", "index", "const") or not n.varies:
        return 0
    return WORK if n.op in ELEMENTARY or n.op == "pow" else 1
