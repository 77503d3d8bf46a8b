"""Folds over sliding windows in tile programs: read where the data lies, border and all, several
results at a time, and mapped before they are stored.

    Fill h; Load h = x; Reduce t = fold over r of h[s*i + r] * w[r]; Map y = f(t)

becomes loops that fold the part of each window that lies inside of `x` and store `f` of it: neither
the padded copy `h` nor the fold `t` goes to memory. A fold without a copy or a map is done alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.codegen.emitter import Emitter
from explorer.codegen.expressions import affine_text, dtype_of_tile
from explorer.codegen.terms import has
from explorer.codegen.vector_operations import known
from explorer.codegen.window_tile import Place, Tile, Tree
from explorer.ir.dims import product
from explorer.ir.kernel import Affine, Const, var
from explorer.ir.tile_program import (
    Do,
    Fetch,
    Fill,
    Load,
    Map,
    Panels,
    Reduce,
    Span,
    Statement,
    TileExpr,
    fetches,
)

LANES = {"float32": 16, "float64": 8}  # of 512 bits
MOST_PLACES = 64  # of a window
MANY_PLACES = 16  # of a window that is written out; more of them are a loop over rows
IDENTITY = {"sum": 0.0, "max": float("-inf"), "min": float("inf")}


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
    """A fold over windows: `data` and `weights` as affine in the spans and the window's axes."""

    reduce: Reduce
    data: Fetch
    weights: Fetch | None
    borders: tuple[Border, ...]
    target: Fetch
    expr: TileExpr | None  # of the fold, which stands in it as what the reduction writes

    @property
    def along(self) -> Span:
        """The axis of results beside each other."""
        return self.reduce.spans[-2]

    @property
    def dense(self) -> Span:
        """The axis along which everything is dense."""
        return self.reduce.spans[-1]

    @property
    def counts(self) -> tuple[int, ...]:
        """The extents of the window."""
        return tuple(o.size for o in self.reduce.over if isinstance(o.size, int))

    @property
    def operands(self) -> tuple[Fetch, ...]:
        """What the map reads besides the fold."""
        found = () if self.expr is None else fetches(self.expr)
        return tuple(dict.fromkeys(f for f in found if f != self.reduce.target))


def window_groups(body: Sequence[Statement]) -> dict[int, tuple[Statement, ...]]:
    """The statements that are one window each, by the position of the first."""
    found: dict[int, tuple[Statement, ...]] = {}
    for n, s in enumerate(body):
        if not isinstance(s, Reduce):
            continue
        group: tuple[Statement, ...] = (s,)
        if n >= 2 and _is_copy(body, n):
            group = (*body[n - 2 : n], s)
        if n + 1 < len(body) and _is_mapped(body, n):
            group = (*group, body[n + 1])
        first = n - 2 if isinstance(group[0], Fill) else n
        if window_of(group) is not None:
            found[first] = group
    return found


def _is_copy(body: Sequence[Statement], n: int) -> bool:
    """Whether the two statements before a reduction make a padded copy for it alone."""
    match body[n - 2 : n]:
        case [Fill(buffer), Load(target, _, _)] if target.buffer == buffer:
            return not _is_read(body[n + 1 :], buffer.name)
    return False


def _is_mapped(body: Sequence[Statement], n: int) -> bool:
    """Whether the statement after a reduction maps its result, which nothing else reads."""
    s, after = body[n], body[n + 1]
    assert isinstance(s, Reduce)
    if not isinstance(after, Map) or s.target.buffer.kind != "scratch":
        return False
    name = s.target.buffer.name
    return name in _touched(after)[0] and not _is_read(body[n + 2 :], name)


def _is_read(body: Sequence[Statement], name: str) -> bool:
    """Whether a buffer is read before it is written again, as another tensor's place."""
    for s in body:
        read, written = _touched(s)
        if name in read:
            return True
        if name in written:
            return False
    return False


def _touched(s: Statement) -> tuple[set[str], set[str]]:
    """The buffers that a statement reads, and those that it writes."""
    match s:
        case Fill(target):
            return set(), {target.name}
        case Load(target, source, _):
            return {source.buffer.name}, {target.buffer.name}
        case Map(target, _, expr) | Reduce(target, _, _, _, expr):
            return {f.buffer.name for f in fetches(expr)}, {target.buffer.name}
        case Panels(_, _, _, contract, table, epilogue):
            read, written = _touched(epilogue)
            used = {
                b.name for b in (contract.a.buffer, contract.b.buffer, contract.segments, table)
            }
            return read - {contract.acc.name} | used, written | {contract.acc.name}
    words = set(repr(s).split("'"))  # the buffers of a statement of another kind are among them
    return words, set()


def window_of(group: Sequence[Statement]) -> Window | None:
    """The window that the statements are, if they are one with a vector form."""
    s = next(g for g in group if isinstance(g, Reduce))
    copy = next((g for g in group if isinstance(g, Load)), None)
    fill = next((g for g in group if isinstance(g, Fill)), None)
    pair = _pair(s)
    if pair is None or len(s.spans) < 2 or not _is_small(s):
        return None
    data, weights = pair
    borders: tuple[Border, ...] = ()
    if copy is not None and fill is not None:
        if data.buffer != fill.target:
            data, weights = weights or data, data
        moved = None if fill.value != IDENTITY.get(s.combiner) else _in_place(s, data, copy)
        if moved is None:
            return None
        data, borders = moved
    elif weights is not None and _slides(s, weights) and not _slides(s, data):
        data, weights = weights, data
    mapped = next((g for g in group if isinstance(g, Map)), None)
    found = Window(s, data, weights, borders, s.target, None)
    if mapped is not None:
        joined = _joined(s, mapped)
        if joined is None:
            return None
        found = replace(found, target=joined.target, expr=joined.expr)
    return found if _has_form(found) else None


def _pair(s: Reduce) -> tuple[Fetch, Fetch | None] | None:
    match s.expr:
        case Fetch() as data if s.combiner in IDENTITY:
            return data, None
        case Do("mul", (Fetch() as data, Fetch() as weights)) if s.combiner == "sum":
            return data, weights
    return None


def _is_small(s: Reduce) -> bool:
    counts = [o.size for o in s.over]
    fixed = all(isinstance(n, int) and n > 0 for n in counts)
    unclipped = not any(o.clip_low or o.clip_high for o in s.over)
    return fixed and unclipped and 1 < product(tuple(counts)) <= MOST_PLACES


def _slides(s: Reduce, f: Fetch) -> bool:
    """Whether a window reaches to where the next one begins, in memory."""
    step = f.offset.factor(s.spans[-2].axis)
    steps = [(f.offset.factor(o.axis), o.size) for o in s.over]
    reach = sum(k * (n - 1) for k, n in steps if isinstance(k, int) and isinstance(n, int))
    return isinstance(step, int) and 0 < step <= reach


def _in_place(s: Reduce, data: Fetch, copy: Load) -> tuple[Fetch, tuple[Border, ...]] | None:
    """A read of a padded copy as a read of what was copied, and where it may lie outside of it."""
    indices = _indices(s, data, copy)
    if indices is None:
        return None
    names = {span.axis: index for span, index in zip(copy.spans, indices, strict=True)}
    borders = []
    for span, index in zip(copy.spans, indices, strict=True):
        inside = [o for o in s.over if index.factor(o.axis) != 0]
        if (not span.clip_low and not span.clip_high) or _is_clipped(s, span, index):
            continue
        if len(inside) != 1 or not isinstance(span.extent, int):
            return None
        step = index.factor(inside[0].axis)
        if not isinstance(step, int) or step < 1:
            return None
        first = index.without({inside[0].axis})
        if any(not isinstance(c, int) or c < 0 for _, c in first.terms):
            return None
        borders.append(Border(inside[0].axis, first, step, span.extent))
    source = copy.source
    return replace(source, offset=source.offset.substitute(names)), tuple(borders)


def _is_clipped(s: Reduce, span: Span, index: Affine) -> bool:
    """Whether the results end where the dim does, so that none lies outside."""
    axes = {a.axis: a for a in s.spans}
    mine = axes.get(index.bare or "")
    return mine is not None and mine.extent == span.extent and not span.clip_low and mine.clip_high


def _indices(s: Reduce, data: Fetch, copy: Load) -> tuple[Affine, ...] | None:
    """The index of each dim of what was copied, from the one address in the copy.

    The address of the copy is a number in mixed radix whose digits are the dims, each below the
    size of its dim: every axis moves the digit of the largest stride that its step reaches. A dim
    of one element may have no stride: nothing moves it.
    """
    axes = {a.axis: a for a in (*s.spans, *s.over)}
    dims = copy.spans
    strides = [copy.target.offset.factor(d.axis) for d in dims]
    sizes = [d.size for d in dims]
    if not all(isinstance(n, int) for n in (*strides, *sizes)):
        return None
    if any(t == 0 and n != 1 for t, n in zip(strides, sizes, strict=True)):
        return None
    origin = data.offset.substitute({n: a.base for n, a in axes.items()})
    first = copy.target.offset.substitute({d.axis: d.base for d in dims})
    left = (origin - first).const
    if (origin - first).terms or not isinstance(left, int) or left < 0:
        return None
    found = [d.base for d in dims]
    reach = [0] * len(dims)
    moving = [(n, t) for n, t in enumerate(strides) if t != 0]
    for n, stride in moving:
        found[n] = found[n] + left // stride
        reach[n], left = left // stride, left % stride
    if left:
        return None
    for name, span in axes.items():
        step = data.offset.factor(name)
        if step == 0:
            continue
        place = next((n for n, t in moving if isinstance(step, int) and t <= step), -1)
        if place < 0 or step % strides[place] or not isinstance(span.size, int):
            return None
        turns = step // strides[place]
        found[place] = found[place] + (var(name) - span.base) * turns
        reach[place] += turns * (span.size - 1)
    inside = all(r < n for r, n in zip(reach, sizes, strict=True) if isinstance(n, int))
    return tuple(found) if inside else None


def _joined(s: Reduce, after: Map) -> Map | None:
    """A map in the axes of the reduction that it reads point by point; None where it is none."""
    if len(after.spans) != len(s.spans):
        return None
    names = {}
    for mine, other in zip(s.spans, after.spans, strict=True):
        if replace(other, axis=mine.axis) != mine:
            return None
        names[other.axis] = var(mine.axis)
    expr = _renamed(after.expr, names)
    reads = [f for f in fetches(expr) if f.buffer == s.target.buffer]
    if any(f != s.target for f in reads):
        return None
    offset = after.target.offset.substitute(names)
    return Map(replace(after.target, offset=offset), s.spans, expr)


def _renamed(expr: TileExpr, names: Mapping[str, Affine]) -> TileExpr:
    match expr:
        case Do(op, args):
            return Do(op, tuple(_renamed(a, names) for a in args))
        case Fetch():
            return replace(expr, offset=expr.offset.substitute(names))
    return expr


def _has_form(w: Window) -> bool:
    """Whether there are vector instructions for all of it."""
    s, dense, along = w.reduce, w.dense.axis, w.along.axis
    dtype = s.dtype
    every = [w.data, w.target, *w.operands, *([w.weights] if w.weights else [])]
    if dtype not in LANES or not has("avx512f"):
        return False
    if any(b.first.factor(dense) != 0 for b in w.borders):  # one vector, several parts of windows
        return False
    if any(f.dynamic or f.buffer.dtype != dtype for f in every):
        return False
    steps = [f.offset.factor(a) for f in every for a in (dense, along)]
    inner = [f.offset.factor(o.axis) for f in every for o in s.over]
    if not all(isinstance(n, int) for n in (*steps, *inner)):
        return False
    dense_steps = [f.offset.factor(dense) for f in every]
    good = all(n in (0, 1) for n in dense_steps) and w.target.offset.factor(dense) == 1
    if not good or w.data.offset.factor(dense) != 1 or not _slides(s, w.data):
        return False
    if w.weights is not None and w.weights.offset.factor(along) != 0:
        return False
    if _writes_what_it_reads(w):
        return False
    return w.expr is None or _is_vector(w.expr, dtype)


def _writes_what_it_reads(w: Window) -> bool:
    """Whether results go where elements lie that later results need."""
    place = w.target.buffer.name
    folded = [w.data, *([w.weights] if w.weights else [])]
    if any(f.buffer.name == place for f in folded):
        return True
    return any(f.buffer.name == place and f.offset != w.target.offset for f in w.operands)


def _is_vector(expr: TileExpr, dtype: str) -> bool:
    match expr:
        case Do(op, args):
            plain = known(op, dtype) and not op.startswith("cast_")
            plain = plain and op not in ("where", "pow") and dtype_of_tile(expr) == dtype
            return plain and all(_is_vector(a, dtype) for a in args)
        case Const(value, own):
            return own == dtype and isinstance(value, (int, float))
        case Fetch():
            return True
    return False


def window(e: Emitter, group: Sequence[Statement]) -> None:
    """Print the statements of a window."""
    found = window_of(group)
    assert found is not None
    start = e.depth
    _Loops(e, found).write()
    e.depth = start


class _Loops:
    """Prints the loops around the tiles of one window."""

    def __init__(self, e: Emitter, w: Window) -> None:
        self.e, self.w = e, w
        self.tag = len(e.header)
        self.many = _results(w)

    def write(self) -> None:
        """All results, row by row: those whose windows are all there in blocks, the others one by
        one.
        """
        e, w, n = self.e, self.w, self.tag
        for span in w.reduce.spans[:-2]:
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
        """Results whose windows are all there along them, several at a time; the other axes are
        loops only where a part of them is outside.
        """
        e, n, many = self.e, self.tag, self.many
        loops = [b.axis for b in outer]
        if _is_large(self.w):  # as loops in any case: written out, it is long and has few sums
            first = [o.axis for o in self.w.reduce.over][:1]
            self.block(self.call(self.tile(many, [*loops, *first]), outer, first))
            return
        whole = self.call(self.tile(many, ()), ())
        if not outer:
            self.block(whole)
            return
        e.line(f"_inside{n} = 1")
        for border in outer:
            e.line(f"if _n{n}_{border.axis} < {self.size(border)}:")
            e.line(f"    _inside{n} = 0")
        part = self.call(self.tile(many, loops), outer)
        self.block(f"if _inside{n} == 1:", f"    {whole}", "else:", f"    {part}")

    def block(self, *lines: str) -> None:
        """The loop over blocks."""
        e, n = self.e, self.tag
        e.line(f"for {self.w.along.axis} in range(_whole{n}, _blocks{n}, {self.many}):")
        for text in lines:
            e.line(f"    {text}")

    @property
    def sizes(self) -> dict[str, int]:
        """The extent of each axis of the window."""
        over = self.w.reduce.over
        return dict(zip((o.axis for o in over), self.w.counts, strict=True))

    def size(self, border: Border) -> int:
        """The extent of a window's axis."""
        return self.sizes[border.axis]

    def interior(self, b: Border) -> None:
        """Narrow the results whose windows are all there."""
        e, n, axis = self.e, self.tag, self.w.along.axis
        step = b.first.factor(axis)
        rest = affine_text(b.first.without({axis}))
        reach = b.step * (self.size(b) - 1)
        before = f"udiv(max(0 - ({rest}), 0) + {step} - 1, {step})"
        after = f"udiv(max({b.extent - reach} - ({rest}), 0) + {step} - 1, {step})"
        e.line(f"_whole{n} = min(max(_whole{n}, {before}), _to{n})")
        e.line(f"_end{n} = max(min(_end{n}, {after}), _whole{n})")

    def part(self, b: Border) -> None:
        """Which part of a window's axis lies inside."""
        e, name = self.e, f"{self.tag}_{b.axis}"
        first, k = affine_text(b.first), b.step
        e.line(f"_r{name} = min(udiv(max(0 - ({first}), 0) + {k} - 1, {k}), {self.size(b)})")
        e.line(
            f"_n{name} = min(udiv(max({b.extent} - ({first}), 0) + {k} - 1, {k}), {self.size(b)})"
        )
        e.line(f"_n{name} = max(_n{name} - _r{name}, 0)")

    def results(self, places: str, edge: str, inner: Sequence[Border]) -> None:
        """Results one by one, from what there is of their windows."""
        e = self.e
        e.line(f"for {self.w.along.axis} in range({places}):")
        e.depth += 1
        for border in inner:
            self.part(border)
        e.line(self.call(edge, self.w.borders))
        e.depth -= 1

    def tile(self, results: int, loops: Sequence[str]) -> str:
        """The name of a tile in the header, with loops along some axes of the window."""
        w, e = self.w, self.e
        over = [o.axis for o in w.reduce.over]
        counts = tuple(None if a in loops else n for a, n in zip(over, w.counts, strict=True))
        channels = w.dense.size if _is_whole(w.dense) else None
        assert channels is None or isinstance(channels, int)
        numbers = {f: i for i, f in enumerate(w.operands)}
        dtype = w.reduce.dtype
        tile = Tile(
            dtype,
            LANES[dtype],
            results,
            channels,
            counts,
            w.reduce.combiner,
            self.place(w.data),
            None if w.weights is None else self.place(w.weights),
            self.place(w.target),
            tuple(self.place(f) for f in w.operands),
            "acc" if w.expr is None else _tree(w.expr, w.reduce.target, numbers),
        )
        name = f"window{len(e.header)}"
        e.header.append(f"{name} = window_tile({tile!r})")
        return name

    def place(self, f: Fetch) -> Place:
        """How an operand moves."""
        w = self.w
        result, dense = (f.offset.factor(s.axis) for s in (w.along, w.dense))
        steps = [f.offset.factor(o.axis) for o in w.reduce.over]
        assert isinstance(result, int) and isinstance(dense, int)
        return Place(result, tuple(n for n in steps if isinstance(n, int)), dense)

    def call(self, tile: str, borders: Sequence[Border], loops: Sequence[str] = ()) -> str:
        """The call of a tile at the current place; its window begins where it lies inside of the
        borders. `loops`: other axes that the tile has loops along.
        """
        w = self.w
        low, high = self.e.bounds(w.dense)
        starts = {o.axis: Affine() for o in w.reduce.over} | {
            b.axis: var(f"_r{self.tag}_{b.axis}") for b in borders
        }
        starts[w.dense.axis] = w.dense.base
        size = 8 if w.reduce.dtype == "float64" else 4
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
    """How many results are folded beside each other: as many as leave the fewest over."""
    size = w.along.size
    if not isinstance(size, int):
        return 4
    inside = max(1, min([size, *(_inside(w, b) for b in w.borders)]))
    sizes = (8, 9, 7, 6) if _is_large(w) else (4, 5, 6, 3)
    return min(sizes, key=lambda n: (inside % n, inside < n)) if inside > 2 else inside


def _inside(w: Window, b: Border) -> int:
    """For how many results beside each other all of a window's axis is inside, about."""
    size, step = w.along.size, b.first.factor(w.along.axis)
    assert isinstance(size, int)
    if not isinstance(step, int) or step == 0 or not isinstance(b.first.const, int):
        return size
    count = next(n for o, n in zip(w.reduce.over, w.counts, strict=True) if o.axis == b.axis)
    low = max(0, -(b.first.const // step))
    high = (b.extent - 1 - b.step * (count - 1) - b.first.const) // step + 1
    return min(size, high) - low


def _tree(expr: TileExpr, fold: Fetch, numbers: Mapping[Fetch, int]) -> Tree:
    match expr:
        case Fetch():
            return "acc" if expr == fold else numbers[expr]
        case Const(value, _):
            assert isinstance(value, (int, float))
            return float(value).hex()
        case Do(op, args):
            return (op, *(_tree(a, fold, numbers) for a in args))
    raise AssertionError(expr)
