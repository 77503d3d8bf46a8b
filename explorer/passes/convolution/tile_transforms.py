"""A convolution by minimal filtering as computes of a kernel: transformed input, products by point,
transformed output (Lavin and Gray 2016, algorithm 1).

    y[n, h, w, o] = sum over kh, kw, c of x[n, h+kh-1, w+kw-1, c] * g[kh, kw, c, o]
->  rows[i][n, th, w, c] = BT[i] . x[n, 2*th+k-1, w-1, c]        image[n, h, w, c] = x[n, h, w, c]
    tiles[i][j][n, th, tw, c] = BT[j] . rows[i][n, th, 2*tw+k, c]
    points[i][j][n, th, tw, o] = sum over c of tiles[i][j][n, th, tw, c] * filters[i][j][c, o]
    sums[i'][j][n, th, tw, o] = AT[i'] . points[i][j][n, th, tw, o]
    y[n, 2*th+i', 2*tw+j', o] = AT[j'] . sums[i'][j][n, th, tw, o]

Where channels come in groups, those of all are transformed; points, sums and y have an axis more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.kernel import Apply, Axis, Compute, Const, Expr, Kernel, Read, TensorSpec
from explorer.ir.shapes.dims import Dim, Shape, ceil_div, floor_div, product
from explorer.passes.convolution.minimal_filters import MinimalFilter
from explorer.passes.convolution.window_sums import WindowSum
from explorer.passes.pipeline.names import fresh


@dataclass(frozen=True, slots=True)
class Names:
    """Tensors and axes of the new computes, none of which the kernel has."""

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
    """Names that are free."""
    taken = {t.name for t in kernel.tensors}
    for c in kernel.computes:
        taken |= {a.name for a in (*c.axes, *c.reduce)}
    tensors = ("image", "rows", "tiles", "filters", "points", "sums")
    axes = ("th", "tw", "w", "c", "i", "j", "inner")
    made: list[str] = []
    for wish in (*tensors, *axes):
        made.append(fresh(wish, {*taken, *made}))
    return Names(*made)


def combination(coefficients: Sequence[Fraction], load: Callable[[int], Expr]) -> Expr:
    """`sum of coefficients[k] * load(k)`, the even terms and the odd ones apart.

    The transforms have points p and -p, whose combinations are `even + odd` and `even - odd`:
    written so, what two rows share is one expression.
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
            part = _plus(part, f / lead, load(k))
        total = _scaled(lead, part) if total is None else _plus(total, lead, part)
    assert total is not None
    return total


def paired(coefficients: Sequence[Fraction], load: Callable[[int], Expr]) -> Expr:
    """The same with the terms of the points p and -p, which stand side by side, taken together;
    one point may have none.
    """
    total: Expr | None = _scaled(coefficients[0], load(0)) if coefficients[0] else None
    last = len(coefficients) - 1
    for k in range(1, last - 1, 2):
        f, g = coefficients[k], coefficients[k + 1]
        both = Apply("add" if f == g else "sub", (load(k), load(k + 1)))
        total = _scaled(f, both) if total is None else _plus(total, f, both)
    for k in (*((last - 1,) if last % 2 == 0 else ()), last):
        if coefficients[k]:
            assert total is not None
            total = _plus(total, coefficients[k], load(k))
    assert total is not None
    return total


def _scaled(factor: Fraction, value: Expr) -> Expr:
    return value if factor == 1 else Apply("mul", (value, Const(float(factor))))


def _plus(total: Expr, factor: Fraction, value: Expr) -> Expr:
    op = "add" if factor > 0 else "sub"
    return Apply(op, (total, _scaled(abs(factor), value)))


class Transforms:
    """The computes of one convolution by one algorithm."""

    def __init__(self, kernel: Kernel, found: WindowSum, by: MinimalFilter) -> None:
        self.kernel, self.found, self.by = kernel, found, by
        self.names = tensor_names(kernel)
        high, wide = self.size = (found.high.extent, found.wide.extent)
        self.count = (ceil_div(high, by.outputs), ceil_div(wide, by.outputs))
        self.origin = found.compute.origin
        self.columns = (*found.group, found.column)
        self.channels = found.channel
        if found.group:
            every = product(a.extent for a in (*found.group, found.channel))
            self.channels = Axis(self.names.channels, every)

    def replaced(self) -> Kernel:
        """The kernel with the convolution's compute replaced by all of them."""
        made = (
            self.image(),
            *self.rows(),
            *self.tiles(),
            self.points(),
            *self.sums(),
            *self.parts(),
        )
        old = self.kernel
        names = self.names
        position = old.computes.index(self.found.compute)
        inputs = tuple(names.filters if n == self.found.weight.tensor else n for n in old.inputs)
        gone = {self.found.weight.tensor}
        tensors = (*(t for t in old.tensors if t.name not in gone), *self.specs())
        return replace(
            old,
            tensors=tensors,
            computes=(*old.computes[:position], *made, *old.computes[position + 1 :]),
            inputs=inputs,
            constants=(old.constants - gone) | {names.filters},
        )

    @property
    def filters(self) -> str:
        """The name of the transformed weights."""
        return self.names.filters

    def transformed(self, weights: np.ndarray) -> np.ndarray:
        """The constant's values as this algorithm reads them: [i, j, groups, c, o]."""
        dims, groups = self.found.filter_dims, tuple(int(a.extent) for a in self.found.group)
        rest = tuple(d for d in range(weights.ndim) if d not in dims)
        plain = weights.transpose(*rest, *dims).reshape([weights.shape[d] for d in dims])
        made = self.by.filters(plain)
        if not groups:
            return made
        i, j, c, _ = made.shape
        return np.ascontiguousarray(made.reshape(i, j, c, *groups, -1).transpose(0, 1, 3, 2, 4))

    def specs(self) -> tuple[TensorSpec, ...]:
        """The tensors that come in between, and the transformed weights."""
        f, t, m, names = self.found, self.by.points, self.by.outputs, self.names
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
        """One compute with the origin of the convolution."""
        combiner = "sum" if reduce else None
        return Compute(out, axes, expr, reduce, combiner, at, self.origin)

    def over(self, *more: Axis) -> tuple[Axis, ...]:
        """The batch axes, tiles down, and what follows."""
        return (*self.found.batch, Axis(self.names.down, self.count[0]), *more)

    def image(self) -> Compute:
        """The input as it is, in scratch, where zeros stand around it."""
        spec = self.kernel.spec(self.found.data.tensor)
        axes = tuple(Axis(f"{self.names.image}{d}", n) for d, n in enumerate(spec.shape))
        read = Read(spec.name, tuple(var(a.name) for a in axes))
        return self.compute(self.names.image, axes, read)

    def rows(self) -> list[Compute]:
        """The transform along the columns of each tile."""
        f, by, names = self.found, self.by, self.names
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
            self.compute(names.rows, axes, combination(r, load), (Affine((), i), *plain))
            for i, r in enumerate(by.input)
        ]

    def tiles(self) -> list[Compute]:
        """The transform along the rows of each tile."""
        by, names = self.by, self.names
        channels = self.channels
        axes = (Axis(names.i, by.points), *self.over(Axis(names.across, self.count[1]), channels))

        def load(k: int) -> Read:
            lead = tuple(var(a.name) for a in axes[:-2])
            column = var(names.across) * by.outputs + k
            return Read(names.rows, (*lead, column, var(channels.name)))

        i, *rest = (var(a.name) for a in axes)
        return [
            self.compute(names.tiles, axes, combination(r, load), (i, Affine((), j), *rest))
            for j, r in enumerate(by.input)
        ]

    def points(self) -> Compute:
        """The products, summed over the channels: one matrix product for each point."""
        by, f, names = self.by, self.found, self.names
        lead = (Axis(names.i, by.points), Axis(names.j, by.points))
        middle = self.over(Axis(names.across, self.count[1]))
        place = (*(var(a.name) for a in (*lead, *middle)), f.data.index[-1])
        weight = tuple(var(a.name) for a in (*lead, *f.group, f.channel, f.column))
        product = Apply("mul", (Read(names.tiles, place), Read(names.filters, weight)))
        axes = (*lead, *middle, *self.columns)
        return self.compute(names.points, axes, product, reduce=(f.channel,))

    def sums(self) -> list[Compute]:
        """The output's transform along the columns of each tile."""
        by, names = self.by, self.names
        axes = (
            Axis(names.j, by.points),
            *self.over(Axis(names.across, self.count[1]), *self.columns),
        )
        plain = tuple(var(a.name) for a in axes)

        def load(k: int) -> Read:
            return Read(names.points, (Affine((), k), *plain))

        return [
            self.compute(names.sums, axes, paired(r, load), (Affine((), i), *plain))
            for i, r in enumerate(by.output)
        ]

    def parts(self) -> list[Compute]:
        """The output's transform along the rows of each tile; what would lie outside is not made.

        The last of them has the most tiles: where the image is no multiple of the tile, or may be
        none, the first rows of the tiles go one tile further than the others.
        """
        m, (high, wide) = self.by.outputs, self.size
        whole = floor_div(high, m)
        rest = high - whole * m
        if isinstance(high, int) and not (whole and rest):
            groups = [(0, rest or m, ceil_div(high, m))]
        else:
            groups = [(rest, m - rest, whole), (0, rest, ceil_div(high, m))]
        columns = min(m, wide) if isinstance(wide, int) else m
        return [
            self.part(j, *group, ceil_div(wide - j, m))
            for group in groups
            for j in reversed(range(columns))
        ]

    def part(self, j: int, first: Dim, count: Dim, down: Dim, across: Dim) -> Compute:
        """Rows `first ..` and column `j` of each tile."""
        by, f, names = self.by, self.found, self.names
        group = 0 if first == 0 else 1
        inner = Axis(f"{names.inner}{group}_{j}", count)  # of this part alone: no tile cuts it
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
        return self.compute(f.compute.out, axes, paired(by.output[j], load), store)
