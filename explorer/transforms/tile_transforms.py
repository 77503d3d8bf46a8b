"""A two-dimensional convolution by minimal filtering, as computes of a kernel.

Transformed input, products by point, transformed output (Lavin and Gray 2016, algorithm 1):

    y[n, h, w, o] = sum over kh, kw, c of x[n, h+kh-1, w+kw-1, c] * g[kh, kw, c, o]
->  rows[i][n, th, w, c] = BT[i] . x[n, 2*th+k-1, w-1, c]        image[n, h, w, c] = x[n, h, w, c]
    tiles[i][j][n, th, tw, c] = BT[j] . rows[i][n, th, 2*tw+k, c]
    points[i][j][n, th, tw, o] = sum over c of tiles[i][j][n, th, tw, c] * filters[i][j][c, o]
    sums[i'][j][n, th, tw, o] = AT[i'] . points[i][j][n, th, tw, o]
    y[n, 2*th+i', 2*tw+j', o] = AT[j'] . sums[i'][j][n, th, tw, o]

Grouped convolutions transform the channels of all groups; points, sums and y have one axis more.
A convolution is matched by structure: a sum over a channel and a 3 x 3 window, times a constant.
The sum covers all channels of the image, or those of the output's group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.dims import Dim, Shape, ceil_div, floor_div, product
from explorer.ir.kernel import Apply, Axis, Compute, Const, Expr, Kernel, Read, TensorSpec
from explorer.ir.kernels.contraction import contraction
from explorer.ir.program import fresh
from explorer.transforms.minimal_filters import TAPS, MinimalFilter


@dataclass(frozen=True, slots=True)
class Names:
    """Fresh names of the new tensors and axes."""

    image: str
    rows: str
    tiles: str
    filters: str
    points: str
    sums: str
    down: str  # axes: tiles down and across, columns of the image, channels of all groups, points
    across: str
    wide: str
    channels: str
    i: str
    j: str
    inner: str


def tensor_names(kernel: Kernel) -> Names:
    """Return names that the kernel does not use."""
    taken = {t.name for t in kernel.tensors}
    for c in kernel.computes:
        taken |= {a.name for a in (*c.axes, *c.reduce)}
    tensors = ("image", "rows", "tiles", "filters", "points", "sums")
    axes = ("th", "tw", "w", "c", "i", "j", "inner")
    names: list[str] = []
    for wish in (*tensors, *axes):
        names.append(fresh(wish, {*taken, *names}))
    return Names(*names)


def combine_terms(coefficients: Sequence[Fraction], load: Callable[[int], Expr]) -> Expr:
    """Return the sum of `coefficients[k] * load(k)`, the even terms apart from the odd ones.

    The transforms have points p and -p, whose combinations are `even + odd` and `even - odd`:
    written so, two rows share a subexpression.
    """
    terms = [(k, f) for k, f in enumerate(coefficients) if f]
    total: Expr | None = None
    for parity in (0, 1):
        mine = [(k, f) for k, f in terms if k % 2 == parity]
        if not mine:
            continue
        lead = mine[-1][1]
        part: Expr = load(mine[-1][0])
        for k, f in mine[:-1]:
            part = _add_scaled(part, f / lead, load(k))
        total = _scale(lead, part) if total is None else _add_scaled(total, lead, part)
    assert total is not None
    return total


def combine_paired_terms(coefficients: Sequence[Fraction], load: Callable[[int], Expr]) -> Expr:
    """Return the same sum with the terms of the points p and -p, which are adjacent, combined.

    One point may have no partner.
    """
    total: Expr | None = _scale(coefficients[0], load(0)) if coefficients[0] else None
    last = len(coefficients) - 1
    for k in range(1, last - 1, 2):
        f, g = coefficients[k], coefficients[k + 1]
        both = Apply("add" if f == g else "sub", (load(k), load(k + 1)))
        total = _scale(f, both) if total is None else _add_scaled(total, f, both)
    for k in (*((last - 1,) if last % 2 == 0 else ()), last):
        if coefficients[k]:
            assert total is not None
            total = _add_scaled(total, coefficients[k], load(k))
    assert total is not None
    return total


def _scale(factor: Fraction, value: Expr) -> Expr:
    return value if factor == 1 else Apply("mul", (value, Const(float(factor))))


def _add_scaled(total: Expr, factor: Fraction, value: Expr) -> Expr:
    op = "add" if factor > 0 else "sub"
    return Apply(op, (total, _scale(abs(factor), value)))


class Transforms:
    """The computes of one convolution by one algorithm."""

    def __init__(self, kernel: Kernel, window: WindowSum, by: MinimalFilter) -> None:
        """Prepare the convolution `window` of a kernel for the algorithm `by`."""
        self.kernel, self.window, self.by = kernel, window, by
        self.names = tensor_names(kernel)
        high, wide = self.size = (window.high.extent, window.wide.extent)
        self.count = (ceil_div(high, by.outputs), ceil_div(wide, by.outputs))
        self.origin = window.compute.origin
        self.columns = (*window.group, window.column)
        self.channels = window.channel
        if window.group:
            every = product(a.extent for a in (*window.group, window.channel))
            self.channels = Axis(self.names.channels, every)

    def rewritten_kernel(self) -> Kernel:
        """Return the kernel with the convolution's compute replaced by the transformed ones."""
        new = (
            self.image(),
            *self.rows(),
            *self.tiles(),
            self.points(),
            *self.sums(),
            *self.parts(),
        )
        old = self.kernel
        names = self.names
        position = old.computes.index(self.window.compute)
        inputs = tuple(names.filters if n == self.window.weight.tensor else n for n in old.inputs)
        gone = {self.window.weight.tensor}
        tensors = (*(t for t in old.tensors if t.name not in gone), *self.specs())
        return replace(
            old,
            tensors=tensors,
            computes=(*old.computes[:position], *new, *old.computes[position + 1 :]),
            inputs=inputs,
            constants=(old.constants - gone) | {names.filters},
        )

    @property
    def filters(self) -> str:
        """The name of the transformed weights."""
        return self.names.filters

    def transform_weights(self, weights: np.ndarray) -> np.ndarray:
        """Return the constant's values in the layout of this algorithm: [i, j, groups, c, o]."""
        dims, groups = self.window.filter_dims, tuple(int(a.extent) for a in self.window.group)
        others = tuple(d for d in range(weights.ndim) if d not in dims)
        plain = weights.transpose(*others, *dims).reshape([weights.shape[d] for d in dims])
        filters = self.by.filters(plain)
        if not groups:
            return filters
        i, j, c, _ = filters.shape
        return np.ascontiguousarray(filters.reshape(i, j, c, *groups, -1).transpose(0, 1, 3, 2, 4))

    def specs(self) -> tuple[TensorSpec, ...]:
        """Return the intermediate tensors and the transformed weights."""
        f, t, m, names = self.window, self.by.points, self.by.outputs, self.names
        lead = tuple(a.extent for a in f.batch)
        down, across = self.count
        c, o = self.channels.extent, tuple(a.extent for a in self.columns)
        filters = tuple(a.extent for a in (*f.group, f.channel, f.column))
        shapes: dict[str, Shape] = {
            names.image: self.kernel.shape(f.data.tensor),
            names.rows: (t, *lead, down, m * across + t - m, c),
            names.tiles: (t, t, *lead, down, across, c),
            names.filters: (t, t, *filters),
            names.points: (t, t, *lead, down, across, *o),
            names.sums: (m, t, *lead, down, across, *o),
        }
        return tuple(TensorSpec(n, s) for n, s in shapes.items())

    def compute(
        self,
        out: str,
        axes: tuple[Axis, ...],
        expr: Expr,
        at: tuple[Affine, ...] = (),
        reduce: tuple[Axis, ...] = (),
    ) -> Compute:
        """Build one compute with the origin of the convolution."""
        combiner = "sum" if reduce else None
        return Compute(out, axes, expr, reduce, combiner, at, self.origin)

    def over(self, *more: Axis) -> tuple[Axis, ...]:
        """Return the batch axes, the tiles down, and the given axes."""
        return (*self.window.batch, Axis(self.names.down, self.count[0]), *more)

    def image(self) -> Compute:
        """Copy the input to scratch memory, which is padded with zeros."""
        spec = self.kernel.spec(self.window.data.tensor)
        axes = tuple(Axis(f"{self.names.image}{d}", n) for d, n in enumerate(spec.shape))
        read = Read(spec.name, tuple(var(a.name) for a in axes))
        return self.compute(self.names.image, axes, read)

    def rows(self) -> list[Compute]:
        """Build the input transform along the columns of each tile."""
        f, by, names = self.window, self.by, self.names
        wide = Axis(names.wide, by.outputs * self.count[1] + by.points - by.outputs)
        axes = self.over(wide, self.channels)
        at_h, at_w = f.places

        def load(k: int) -> Read:
            index = list(f.data.index)
            index[at_h] = var(names.down) * by.outputs + (k + f.begins[0])
            index[at_w] = var(names.wide) + f.begins[1]
            index[-1] = var(self.channels.name)
            return Read(names.image, tuple(index), 0.0)

        plain = tuple(var(a.name) for a in axes)
        return [
            self.compute(names.rows, axes, combine_terms(r, load), (Affine((), i), *plain))
            for i, r in enumerate(by.input)
        ]

    def tiles(self) -> list[Compute]:
        """Build the input transform along the rows of each tile."""
        by, names = self.by, self.names
        channels = self.channels
        axes = (Axis(names.i, by.points), *self.over(Axis(names.across, self.count[1]), channels))

        def load(k: int) -> Read:
            lead = tuple(var(a.name) for a in axes[:-2])
            column = var(names.across) * by.outputs + k
            return Read(names.rows, (*lead, column, var(channels.name)))

        i, *later = (var(a.name) for a in axes)
        return [
            self.compute(names.tiles, axes, combine_terms(r, load), (i, Affine((), j), *later))
            for j, r in enumerate(by.input)
        ]

    def points(self) -> Compute:
        """Build the products, summed over the channels: one matrix product for each point."""
        by, f, names = self.by, self.window, self.names
        lead = (Axis(names.i, by.points), Axis(names.j, by.points))
        middle = self.over(Axis(names.across, self.count[1]))
        place = (*(var(a.name) for a in (*lead, *middle)), f.data.index[-1])
        weight = tuple(var(a.name) for a in (*lead, *f.group, f.channel, f.column))
        product = Apply("mul", (Read(names.tiles, place), Read(names.filters, weight)))
        axes = (*lead, *middle, *self.columns)
        return self.compute(names.points, axes, product, reduce=(f.channel,))

    def sums(self) -> list[Compute]:
        """Build the output transform along the columns of each tile."""
        by, names = self.by, self.names
        axes = (
            Axis(names.j, by.points),
            *self.over(Axis(names.across, self.count[1]), *self.columns),
        )
        plain = tuple(var(a.name) for a in axes)

        def load(k: int) -> Read:
            return Read(names.points, (Affine((), k), *plain))

        return [
            self.compute(names.sums, axes, combine_paired_terms(r, load), (Affine((), i), *plain))
            for i, r in enumerate(by.output)
        ]

    def parts(self) -> list[Compute]:
        """Build the output transform along the rows of each tile, without elements outside.

        The last part has the most tiles: where the image may not be a multiple of the tile, the
        first rows of the tiles extend one tile further than the others.
        """
        m, (high, wide) = self.by.outputs, self.size
        full = floor_div(high, m)
        remainder = high - full * m
        if isinstance(high, int) and not (full and remainder):
            groups = [(0, remainder or m, ceil_div(high, m))]
        else:
            groups = [(remainder, m - remainder, full), (0, remainder, ceil_div(high, m))]
        columns = min(m, wide) if isinstance(wide, int) else m
        return [
            self.part(j, *group, ceil_div(wide - j, m))
            for group in groups
            for j in reversed(range(columns))
        ]

    def part(self, j: int, first: Dim, count: Dim, down: Dim, across: Dim) -> Compute:
        """Build rows `first ..` and column `j` of each tile."""
        by, f, names = self.by, self.window, self.names
        group = 0 if first == 0 else 1
        inner = Axis(f"{names.inner}{group}_{j}", count)  # specific to this part: no tile cuts it
        axes = (
            *f.batch,
            Axis(names.down, down),
            inner,
            Axis(names.across, across),
            *self.columns,
        )
        lead = tuple(var(a.name) for a in f.batch)
        columns = tuple(var(a.name) for a in self.columns)
        tile = (var(names.down), var(names.across), *columns)

        def load(k: int) -> Read:
            return Read(names.sums, (var(inner.name) + first, Affine((), k), *lead, *tile))

        values = {
            f.high.name: var(names.down) * by.outputs + var(inner.name) + first,
            f.wide.name: var(names.across) * by.outputs + j,
        }
        values |= {a.name: var(a.name) for a in (*f.batch, *self.columns)}
        store = tuple(i.substitute(values) for i in f.compute.target)
        return self.compute(f.compute.out, axes, combine_paired_terms(by.output[j], load), store)


@dataclass(frozen=True, slots=True)
class WindowSum:
    """`out[.., h, w, .., o] = sum over kh, kw, c of x[.., h+kh+top, w+kw+left, .., c] * g`.

    `high` and `wide` are the axes of the output that the window moves along, `places` the dims of x
    that they index, `begins` top and left; `batch` the other axes but the output's channel;
    `filter_dims` the dims of the constant that kh, kw, c and o index. In grouped convolutions
    `group` is the axis of the groups, x is read at `g * (a group's channels) + c`, the constant at
    `g * (a group's outputs) + o`.
    """

    compute: Compute
    data: Read
    weight: Read
    high: Axis
    wide: Axis
    channel: Axis
    column: Axis
    batch: tuple[Axis, ...]
    group: tuple[Axis, ...]
    places: tuple[int, int]
    begins: tuple[int, int]
    filter_dims: tuple[int, int, int, int]


def window_sum(kernel: Kernel, c: Compute) -> WindowSum | str:
    """Match a compute as a sum over a 3 x 3 window that moves by one, or return why not."""
    contracted = contraction(c)
    if contracted is None:
        return "it is not a contraction"
    if len(contracted.batch) > 1 or len(contracted.depth) != 3:
        return "it does not sum over a window of two dims and a channel, the same for all outputs"
    if contracted.b.tensor not in kernel.constants:
        return "its weights are not constant"
    if contracted.a.tensor not in kernel.inputs:
        return "its image is computed in the same kernel"
    if any(kernel.dtype(t) != "float32" for t in (contracted.a.tensor, contracted.b.tensor, c.out)):
        return "it is not in float32"
    if contracted.a.fill not in (None, 0.0):
        return f"its padding is {contracted.a.fill}, not 0"
    moved = _match_windows(contracted.a, contracted.rows, contracted.depth)
    if moved is None:
        return "no window of 3 x 3 moves by one along two axes"
    (high, kh, at_h, top), (wide, kw, at_w, left) = moved
    (channel,) = (x for x in contracted.depth if x.name not in (kh.name, kw.name))
    batch = tuple(x for x in contracted.rows if x.name not in (high.name, wide.name))
    if not all(isinstance(x.extent, int) for x in (*contracted.batch, channel, contracted.column)):
        return "its number of channels is symbolic"
    if contracted.a.index[-1] != _channel_index(contracted.batch, channel):
        return "its channels are not the last dim"
    if not _is_plain(contracted.a, (at_h, at_w), {x.name for x in batch}):
        return "its image is not read dim by dim"
    columns = _channel_index(contracted.batch, contracted.column)
    dims = _match_dims(
        contracted.b, (_axis_index(kh), _axis_index(kw), _axis_index(channel), columns)
    )
    if dims is None:
        return "its weights are not read dim by dim"
    if c.target[-1].terms not in (_axis_index(contracted.column).terms, columns.terms):
        return "its channels are not the last dim"
    return WindowSum(
        c,
        contracted.a,
        contracted.b,
        high,
        wide,
        channel,
        contracted.column,
        batch,
        contracted.batch,
        (at_h, at_w),
        (top, left),
        dims,
    )


Moved = tuple[Axis, Axis, int, int]  # an output axis, the window's, the dim of x, where it begins


def _match_windows(
    read: Read, rows: tuple[Axis, ...], depth: tuple[Axis, ...]
) -> tuple[Moved, Moved] | None:
    """Return the two dims that are read at `h + kh + begin`, in the order of the output's axes."""
    by_row, by_tap = {x.name: x for x in rows}, {x.name: x for x in depth}
    windows: list[Moved] = []
    for d, entry in enumerate(read.index):
        if not isinstance(entry, Affine) or len(entry.terms) != 2:
            continue
        row = next((by_row[n] for n, _ in entry.terms if n in by_row), None)
        tap = next((by_tap[n] for n, _ in entry.terms if n in by_tap), None)
        if row is None or tap is None:
            continue
        if any(factor != 1 for _, factor in entry.terms) or not isinstance(entry.const, int):
            return None
        if tap.extent != TAPS:
            return None
        windows.append((row, tap, d, entry.const))
    if len(windows) != 2 or windows[0][0] == windows[1][0] or windows[0][1] == windows[1][1]:
        return None
    order = [x.name for x in rows]
    first, second = sorted(windows, key=lambda m: order.index(m[0].name))
    return first, second


def _is_plain(read: Read, windows: tuple[int, int], names: set[str]) -> bool:
    """Return True if the dims but the windows and the last are indexed by these axes, each once."""
    others = [i for d, i in enumerate(read.index[:-1]) if d not in windows]
    seen = [i.bare for i in others if isinstance(i, Affine) and i.terms]
    return None not in seen and sorted(map(str, seen)) == sorted(names)


def _match_dims(read: Read, wanted: tuple[Affine, ...]) -> tuple[int, int, int, int] | None:
    """Return the dims with these indices, or None if another dim is indexed by an axis."""
    places = {i: d for d, i in enumerate(read.index) if isinstance(i, Affine) and i.terms}
    moving = sum(isinstance(i, Affine) and bool(i.terms) for i in read.index)
    if set(places) != set(wanted) or moving != len(wanted):
        return None
    kh, kw, c, o = (places[i] for i in wanted)
    return kh, kw, c, o


def _channel_index(group: tuple[Axis, ...], axis: Axis) -> Affine:
    """Return the index of a group's channel among the channels of all groups."""
    return sum((var(g.name) * axis.extent for g in group), _axis_index(axis))


def _axis_index(axis: Axis) -> Affine:
    return Affine(((axis.name, 1),))
