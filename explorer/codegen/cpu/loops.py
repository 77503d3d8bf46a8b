"""Maps and reductions as calls of vectorised loop nests, in their chosen form."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from explorer.codegen.cpu.emitter import Emitter, affine_text, dim_text
from explorer.codegen.cpu.nest import Nest, Node, Operand, Reduced, Stored
from explorer.codegen.cpu.vector_operations import BORDER_BYTES
from explorer.ir.affine import Affine, var
from explorer.ir.dtypes import ITEM_BYTES, computed, is_float
from explorer.ir.kernel import Const, IndexValue
from explorer.ir.tile_program import (
    Do,
    Fetch,
    LoopForm,
    OnePass,
    Reduce,
    Scan,
    Span,
    TileExpr,
    dtype_of_tile,
)
from explorer.ir.tile_traversal import Part
from explorer.tile.rewriting.loop_form import Pass, as_pass, is_small_power, size_of

MOST_PREFETCHED_BYTES = 1 << 14  # of a row, during the one before it; chosen, no measurement kept


def vector_loop(e: Emitter, s: Part | OnePass, form: LoopForm) -> None:
    """Print a statement as vector loops."""
    _Plan(e, as_pass(s), form).emit()


def vector_scan(e: Emitter, s: Scan, form: LoopForm) -> None:
    """Print a scan along the dense axis, as a prefix within each vector."""
    reduction = Reduce(s.target, s.spans, (s.over,), s.combiner, s.expr, s.dtype)
    _Plan(e, Pass(s.spans, (s.over,), (), (reduction,)), form, s).emit()


@dataclass(slots=True)
class _Plan:
    """A loop nest under construction."""

    e: Emitter
    p: Pass
    form: LoopForm
    running: Scan | None = None
    operands: list[Operand] = field(default_factory=list)
    bases: dict[tuple[str, Affine], int] = field(default_factory=dict)
    distances: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    numbers: dict[TileExpr, int] = field(default_factory=dict)

    def emit(self) -> None:
        """Print the loops around the nest, and its call."""
        p, e, order = self.p, self.e, self.form.order
        for span in p.around(order):
            e.loop(span)
        inside = p.axes(order)
        starts = {s.axis: self.start(s) for s in inside}
        axes = tuple(s.axis for s in inside)
        stores = tuple(self.store(t, x, axes, starts) for t, x in p.maps)
        reductions = tuple(self.reduction(f, axes, starts) for f in p.reductions)
        counts = tuple(_count(s) for s in inside)
        turns = [self.trip_count(s, starts[s.axis]) for s, n in zip(inside, counts) if n is None]
        bases, operands = self.addresses()
        nest = Nest(
            self.named_order,
            self.form.lanes,
            self.form.unroll,
            counts,
            len(bases),
            operands,
            tuple(self.nodes),
            stores,
            reductions,
        )
        e.line(f"{self.named(nest)}(({', '.join((*bases, *turns, *self.distances))},))")

    @property
    def named_order(self) -> str:
        """The order as a nest spells it."""
        if self.running is None:
            return self.form.order
        modes = ("backwards", self.running.backwards), ("exclusive", self.running.exclusive)
        return " ".join(("scan", *(name for name, on in modes if on)))

    def addresses(self) -> tuple[list[str], tuple[Operand, ...]]:
        """Return the addresses that are passed, and the operands with their distances from them.

        Operands at a constant distance from each other share an address.
        """
        least = [min(o.first for o in self.operands if o.base == n) for n in range(len(self.bases))]
        text = []
        for (name, terms), first in zip(self.bases, least, strict=True):
            offset = affine_text(terms + first)
            text.append(f"{name} + ({offset}) * {self.item_bytes(name)}" if name else offset)
        moved = (replace(o, first=o.first - least[o.base]) for o in self.operands)
        return text, tuple(moved)

    def item_bytes(self, name: str) -> int:
        """Return the bytes of an element of a buffer."""
        every = (*self.p.loads, *self.p.targets)
        return ITEM_BYTES[next(f.buffer.dtype for f in every if f.buffer.name == name)]

    def named(self, nest: Nest) -> str:
        """Return the name of a nest in the header; equal nests share it."""
        text = f" = vector_nest({nest!r})"
        for line in self.e.header:
            if line.endswith(text):
                return line.removesuffix(text)
        name = f"nest{len(self.e.header)}"
        self.e.header.append(name + text)
        return name

    def start(self, s: Span) -> Affine:
        """Return the first value of an axis."""
        if not s.clip_low:
            return s.base
        name = f"_first{self.e.expressions}"
        self.e.expressions += 1
        self.e.line(f"{name} = max({affine_text(s.base)}, 0)")
        return var(name)

    def trip_count(self, s: Span, start: Affine) -> str:
        """Return the trip count of an axis."""
        if not (s.clip_low or s.clip_high):
            return dim_text(s.size)
        end = affine_text(s.base + s.size)
        end = f"min({end}, {dim_text(s.extent)})" if s.clip_high else end
        return f"max({end} - ({affine_text(start)}), 0)"

    def operand(
        self, f: Fetch | IndexValue, axes: tuple[str, ...], starts: dict[str, Affine]
    ) -> int:
        """Return the number of an operand that is read or written."""
        index = f.offset if isinstance(f, Fetch) else f.index
        moved = index.substitute(starts)
        factors = tuple(index.factor(a) for a in axes)
        steps = tuple(s if isinstance(s, int) else None for s in factors)
        self.distances += [dim_text(s) for s in factors if not isinstance(s, int)]
        name, dtype = (f.buffer.name, f.buffer.dtype) if isinstance(f, Fetch) else ("", "")
        first = moved.const if name and isinstance(moved.const, int) else 0
        key = (name, moved - first if name else moved)
        base = self.bases.setdefault(key, len(self.bases))
        turned = self.form.order == "turned" and name != "" and steps[-1] not in (0, 1)
        ahead = self.ahead(f, steps) if isinstance(f, Fetch) else 0
        self.operands.append(Operand(dtype, steps, base, first, turned, ahead))
        return len(self.operands) - 1

    def ahead(self, f: Fetch, steps: tuple[int | None, ...]) -> int:
        """Return the prefetch distance in bytes to an operand's next row, 0 for none.

        Rows are prefetched if they are reduced and stream from memory.
        """
        row = size_of(self.p.over[-1]) * ITEM_BYTES[f.buffer.dtype]
        streams = f.buffer.streamed and f.buffer.kind == "input"
        fits = self.p.reductions and steps == (1,) and row <= MOST_PREFETCHED_BYTES
        return row if streams and fits else 0

    def store(
        self, target: Fetch, expr: TileExpr, axes: tuple[str, ...], starts: dict[str, Affine]
    ) -> Stored:
        """Return the store of one map; later parts use the value instead of the element."""
        node = self.node(expr, axes, starts)
        self.numbers[target] = node
        number = self.operand(target, axes, starts)
        steps = self.operands[number].steps[:-1]
        each = ITEM_BYTES[target.buffer.dtype]
        on_borders = all(s is not None and s * each % BORDER_BYTES == 0 for s in steps)
        return Stored(number, node, on_borders and target.buffer.streamed)

    def reduction(self, f: Reduce, axes: tuple[str, ...], starts: dict[str, Affine]) -> Reduced:
        """Return one reduction of the nest."""
        node = self.node(f.expr, axes, starts)
        place = self.operand(f.target, axes, starts)
        return Reduced(place, node, f.combiner, computed(f.dtype))

    def node(self, x: TileExpr, axes: tuple[str, ...], starts: dict[str, Affine]) -> int:
        """Return the number of an expression's value."""
        if x in self.numbers:
            return self.numbers[x]
        match x:
            case Fetch():
                varies = x.offset.factor(axes[-1]) != 0
                new_node = Node(
                    "load", x.buffer.dtype, (self.operand(x, axes, starts),), "", varies
                )
            case IndexValue(index):
                varies = index.factor(axes[-1]) != 0
                new_node = Node("index", "int64", (self.operand(x, axes, starts),), "", varies)
            case Const():
                new_node = Node("const", x.dtype, (), _text(x), False)
            case Do(op, args):
                small = is_small_power(x)
                arguments = tuple(self.node(a, axes, starts) for a in (args[:1] if small else args))
                varies = any(self.nodes[a].varies for a in arguments)
                value = _text(args[1]) if small and isinstance(args[1], Const) else ""
                new_node = Node(op, dtype_of_tile(args[0]), arguments, value, varies)
        self.nodes.append(new_node)
        self.numbers[x] = len(self.nodes) - 1
        return self.numbers[x]


def _text(c: Const) -> str:
    """Return a number as text that reads back as the same."""
    return float(c.number).hex() if is_float(c.dtype) else str(int(c.number))


def _count(s: Span) -> int | None:
    return s.size if isinstance(s.size, int) and not (s.clip_low or s.clip_high) else None
