"""Reductions over sliding windows as loops around tiles of results.

Results whose windows lie inside are reduced several at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.codegen.cpu.emitter import Emitter, affine_text
from explorer.codegen.cpu.window_tile import Place, Tile, Tree
from explorer.ir.affine import Affine, var
from explorer.ir.dims import concrete_dim, product
from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.kernel import Const
from explorer.ir.tile_program import Border, Do, Fetch, Span, TileExpr, Window

MANY_PLACES = 16  # a larger window is a loop over rows; chosen, no measurement kept


def window(e: Emitter, w: Window) -> None:
    """Print a window."""
    start = e.depth
    _Loops(e, w).write()
    e.depth = start


class _Loops:
    """A printer of the loops around the tiles of one window."""

    def __init__(self, e: Emitter, w: Window) -> None:
        """Create a printer for a window."""
        self.e, self.w = e, w
        self.tag = len(e.header)
        self.many = _results(w)

    def write(self) -> None:
        """Print all results, row by row: interior ones in blocks, those at borders one by one."""
        e, w, n = self.e, self.w, self.tag
        for span in w.reduction.spans[:-2]:
            e.loop(span)
        low, high = e.bounds(w.along)
        e.line(f"_from{n} = {low}")
        e.line(f"_to{n} = {high}")
        e.line(f"_whole{n} = _from{n}")
        e.line(f"_end{n} = _to{n}")
        inner = [b for b in w.borders if b.first.factor(w.along.axis) != 0]
        outer = [b for b in w.borders if b not in inner]
        for border in inner:
            self.interior(border)
        e.line(f"_blocks{n} = _whole{n} + udiv(_end{n} - _whole{n}, {self.many}) * {self.many}")
        for border in outer:
            self.part(border)
        edge = self.tile(1, [b.axis for b in w.borders])
        self.results(f"_from{n}, _whole{n}", edge, inner)
        self.blocks(outer)
        self.results(f"_blocks{n}, _to{n}", edge, inner)

    def blocks(self, outer: Sequence[Border]) -> None:
        """Print interior results of the last axis, several at a time.

        The other axes are loops only where a part of them is outside.
        """
        e, n, many = self.e, self.tag, self.many
        loops = [b.axis for b in outer]
        if _is_large(self.w):  # always loops: unrolled, it is long and has few sums
            first = [o.axis for o in self.w.reduction.over][:1]
            self.block(self.call(self.tile(many, [*loops, *first]), outer, first))
            return
        interior_call = self.call(self.tile(many, ()), ())
        if not outer:
            self.block(interior_call)
            return
        e.line(f"_inside{n} = 1")
        for border in outer:
            e.line(f"if _n{n}_{border.axis} < {self.size(border)}:")
            e.line(f"    _inside{n} = 0")
        part = self.call(self.tile(many, loops), outer)
        self.block(f"if _inside{n} == 1:", f"    {interior_call}", "else:", f"    {part}")

    def block(self, *lines: str) -> None:
        """Print the loop over blocks."""
        e, n = self.e, self.tag
        e.line(f"for {self.w.along.axis} in range(_whole{n}, _blocks{n}, {self.many}):")
        for text in lines:
            e.line(f"    {text}")

    @property
    def sizes(self) -> dict[str, int]:
        """The extent of each axis of the window."""
        over = self.w.reduction.over
        return dict(zip((o.axis for o in over), self.w.counts, strict=True))

    def size(self, border: Border) -> int:
        """Return the extent of a window's axis."""
        return self.sizes[border.axis]

    def interior(self, b: Border) -> None:
        """Print the bounds of the results whose windows lie inside along a border."""
        e, n, axis = self.e, self.tag, self.w.along.axis
        step = b.first.factor(axis)
        offset = affine_text(b.first.without({axis}))
        reach = b.step * (self.size(b) - 1)
        before = f"udiv(max(0 - ({offset}), 0) + {step} - 1, {step})"
        after = f"udiv(max({b.extent - reach} - ({offset}), 0) + {step} - 1, {step})"
        e.line(f"_whole{n} = min(max(_whole{n}, {before}), _to{n})")
        e.line(f"_end{n} = max(min(_end{n}, {after}), _whole{n})")

    def part(self, b: Border) -> None:
        """Print the bounds of the part of a window's axis that lies inside."""
        e, name = self.e, f"{self.tag}_{b.axis}"
        first, k = affine_text(b.first), b.step
        e.line(f"_r{name} = min(udiv(max(0 - ({first}), 0) + {k} - 1, {k}), {self.size(b)})")
        e.line(
            f"_n{name} = min(udiv(max({b.extent} - ({first}), 0) + {k} - 1, {k}), {self.size(b)})"
        )
        e.line(f"_n{name} = max(_n{name} - _r{name}, 0)")

    def results(self, places: str, edge: str, inner: Sequence[Border]) -> None:
        """Print results one by one, from the part of their windows that exists."""
        e = self.e
        e.line(f"for {self.w.along.axis} in range({places}):")
        e.depth += 1
        for border in inner:
            self.part(border)
        e.line(self.call(edge, self.w.borders))
        e.depth -= 1

    def tile(self, results: int, loops: Sequence[str]) -> str:
        """Return the name of a tile in the header, with loops along some axes of the window."""
        w, e = self.w, self.e
        over = [o.axis for o in w.reduction.over]
        counts = tuple(None if a in loops else n for a, n in zip(over, w.counts, strict=True))
        channels = w.dense.size if _is_whole(w.dense) else None
        assert channels is None or isinstance(channels, int)
        numbers = {f: i for i, f in enumerate(w.operands)}
        dtype = w.reduction.dtype
        tile = Tile(
            dtype,
            e.device.lanes * 4 // ITEM_BYTES[dtype],
            results,
            channels,
            counts,
            w.reduction.combiner,
            self.place(w.data),
            None if w.weights is None else self.place(w.weights),
            self.place(w.target),
            tuple(self.place(f) for f in w.operands),
            _tree(w.expr, w.reduction.target, numbers),
        )
        name = f"window{len(e.header)}"
        e.header.append(f"{name} = window_tile({tile!r})")
        return name

    def place(self, f: Fetch) -> Place:
        """Return the strides of an operand."""
        w = self.w
        result, dense = (concrete_dim(f.offset.factor(s.axis)) for s in (w.along, w.dense))
        steps = [f.offset.factor(o.axis) for o in w.reduction.over]
        return Place(result, tuple(n for n in steps if isinstance(n, int)), dense)

    def call(self, tile: str, borders: Sequence[Border], loops: Sequence[str] = ()) -> str:
        """Return the call of a tile at the current place.

        Its window begins inside of the borders. `loops` are other axes that the tile has loops
        along.
        """
        w = self.w
        low, high = self.e.bounds(w.dense)
        starts = {o.axis: Affine() for o in w.reduction.over} | {
            b.axis: var(f"_r{self.tag}_{b.axis}") for b in borders
        }
        starts[w.dense.axis] = w.dense.base
        size = ITEM_BYTES[w.reduction.dtype]
        every = [w.data, *([w.weights] if w.weights else []), w.target, *w.operands]
        numbers = [
            f"{f.buffer.name} + ({affine_text(f.offset.substitute(starts))}) * {size}"
            for f in every
        ]
        if not _is_whole(w.dense):
            numbers.append(f"{high} - ({low})")
        partial = {b.axis: f"_n{self.tag}_{b.axis}" for b in borders}
        partial = {a: str(n) for a, n in self.sizes.items() if a in loops} | partial
        numbers += [partial[a] for a in self.sizes if a in partial]
        return f"{tile}(({', '.join(numbers)},))"


def _is_whole(s: Span) -> bool:
    return isinstance(s.size, int) and not (s.clip_low or s.clip_high)


def _is_large(w: Window) -> bool:
    return len(w.counts) > 1 and product(w.counts) > MANY_PLACES


def _results(w: Window) -> int:
    """Return how many neighbouring results are reduced at once, to leave the fewest over."""
    size = w.along.size
    if not isinstance(size, int):
        return 4
    inside = max(1, min([size, *(_inside(w, b) for b in w.borders)]))
    sizes = (8, 9, 7, 6) if _is_large(w) else (4, 5, 6, 3)
    return min(sizes, key=lambda n: (inside % n, inside < n)) if inside > 2 else inside


def _inside(w: Window, b: Border) -> int:
    """Return about how many neighbouring results have a window's axis inside completely."""
    size, step = concrete_dim(w.along.size), b.first.factor(w.along.axis)
    if not isinstance(step, int) or step == 0 or not isinstance(b.first.const, int):
        return size
    count = next(n for o, n in zip(w.reduction.over, w.counts, strict=True) if o.axis == b.axis)
    low = max(0, -(b.first.const // step))
    high = (b.extent - 1 - b.step * (count - 1) - b.first.const) // step + 1
    return min(size, high) - low


def _tree(expr: TileExpr, reduction: Fetch, numbers: Mapping[Fetch, int]) -> Tree:
    """Return an expression in a tile's form: "acc", numbers of operands, hexadecimal floats."""
    match expr:
        case Fetch():
            return "acc" if expr == reduction else numbers[expr]
        case Const():
            return float(expr.number).hex()
        case Do(op, args):
            return (op, *(_tree(a, reduction, numbers) for a in args))
    raise AssertionError(expr)
