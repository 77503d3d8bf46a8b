"""Convolution by minimal filtering along one dim of its window, as computes of a kernel.

A long window is cut into segments of as many taps as a tile has outputs (Winograd 1980; Lavin and
Gray 2016, section 4).

    y[h, w, o] = sum over kh, kw, c of x[2*h+kh-1, w+kw-1, c] * g[kh, kw, c, o]
->  tiles[j][h, u, c] = BT[j] . x[h, 4*u+k-1, c]                                image = x
    points[j][h, tw, o] = sum over kh, s, c of tiles[j][2*h+kh-1, tw+s, c] * filters[j][kh, s, c, o]
    y[h, 4*tw+i, o] = AT[i] . points[j][h, tw, o]

Segment s of tile tw begins where tile tw + s does, so no input is transformed twice. The other dims
are read as before: their strides, dilations, borders and groups stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.dims import Dim, Shape, ceil_div
from explorer.ir.kernel import Apply, Axis, Compute, Expr, Kernel, Read, TensorSpec
from explorer.ir.kernels.contraction import contraction
from explorer.ir.program import fresh
from explorer.transforms.minimal_filters import MinimalFilter
from explorer.transforms.tile_transforms import combine_paired_terms, combine_terms

LEAST_TAPS = 4  # windows of three taps are filtered in two dims instead; chosen


@dataclass(frozen=True, slots=True)
class RowSum:
    """`out[.., w, ..] = sum over .., kw of x[.., w+kw+begin, ..] * g[.., kw, ..]`.

    `place` is the dim of x that `wide` and `tap` index, `filter_place` that of the constant.
    """

    compute: Compute
    data: Read
    weight: Read
    wide: Axis
    tap: Axis
    place: int
    begin: int
    filter_place: int


def row_sum(kernel: Kernel, c: Compute) -> RowSum | str:
    """Match a compute as a sum over a window that moves by one along a dim, or return why not."""
    contracted = contraction(c)
    if contracted is None:
        return "it is not a contraction"
    if contracted.b.tensor not in kernel.constants:
        return "its weights are not constant"
    if contracted.a.tensor not in kernel.inputs:
        return "its image is computed in the same kernel"
    if any(kernel.dtype(t) != "float32" for t in (contracted.a.tensor, contracted.b.tensor, c.out)):
        return "it is not in float32"
    if contracted.a.fill not in (None, 0.0):
        return f"its padding is {contracted.a.fill}, not 0"
    rows, depth = {x.name: x for x in contracted.rows}, {x.name: x for x in contracted.depth}
    moved: list[RowSum] = []
    for place, entry in enumerate(contracted.a.index):
        if not isinstance(entry, Affine) or not isinstance(entry.const, int):
            continue
        wide = [rows[n] for n, factor in entry.terms if n in rows and factor == 1]
        taps = [depth[n] for n, factor in entry.terms if n in depth and factor == 1]
        if len(entry.terms) != 2 or not wide or not taps:
            continue
        there = [d for d, i in enumerate(contracted.b.index) if i == var(taps[0].name)]
        alone = (
            _count_uses(contracted.a, wide[0])
            == _count_uses(contracted.a, taps[0])
            == _count_uses(contracted.b, taps[0])
            == 1
        )
        long = isinstance(taps[0].extent, int) and taps[0].extent >= LEAST_TAPS
        if there and alone and long:
            ends = (place, entry.const, there[0])
            moved.append(RowSum(c, contracted.a, contracted.b, wide[0], taps[0], *ends))
    if not moved:
        return f"no window of {LEAST_TAPS} taps or more moves by one along a dim"
    return max(moved, key=lambda m: (int(m.tap.extent), m.place))


def _count_uses(read: Read, axis: Axis) -> int:
    return sum(isinstance(i, Affine) and axis.name in i.variables for i in read.index)


class RowTransforms:
    """The computes of one convolution by one algorithm."""

    def __init__(self, kernel: Kernel, window: RowSum, by: MinimalFilter) -> None:
        """Prepare the convolution `window` of a kernel for the algorithm `by`."""
        assert by.outputs == by.taps, "tiles and segments begin at the same places"
        self.kernel, self.window, self.by = kernel, window, by
        taken = {t.name for t in kernel.tensors}
        for c in kernel.computes:
            taken |= {a.name for a in (*c.axes, *c.reduce)}
        names: list[str] = []
        for wish in ("image", "tiles", "filters", "points", "j", "u", "tw", "s", "x"):
            names.append(fresh(wish, {*taken, *names}))
        self.image_name, self.tiles_name, self.filters, self.points_name, *axes = names
        self.j, self.u, self.across, self.segment, self.x = axes
        self.count = ceil_div(window.wide.extent, by.outputs)
        self.segments = ceil_div(int(window.tap.extent), by.taps)

    def rewritten_kernel(self) -> Kernel:
        """Return the kernel with the convolution's compute replaced by the transformed ones."""
        old, weight = self.kernel, self.window.weight.tensor
        transformed_computes = (self.image(), *self.tiles(), self.points(), *self.parts())
        position = old.computes.index(self.window.compute)
        return replace(
            old,
            tensors=(*(t for t in old.tensors if t.name != weight), *self.specs()),
            computes=(
                *old.computes[:position],
                *transformed_computes,
                *old.computes[position + 1 :],
            ),
            inputs=tuple(self.filters if n == weight else n for n in old.inputs),
            constants=(old.constants - {weight}) | {self.filters},
        )

    def transform_weights(self, weights: np.ndarray) -> np.ndarray:
        """Return the constant's values in the layout of this algorithm."""
        return self.by.along(weights, self.window.filter_place)

    def specs(self) -> tuple[TensorSpec, ...]:
        """Return the intermediate tensors and the transformed weights."""
        f, t = self.window, self.by.points
        image = self.kernel.shape(f.data.tensor)
        tiles = (*image[: f.place], self.count + self.segments - 1, *image[f.place + 1 :])
        weight = list(self.kernel.shape(f.weight.tensor))
        weight[f.filter_place] = self.segments
        shapes: dict[str, Shape] = {
            self.image_name: image,
            self.tiles_name: (t, *tiles),
            self.filters: (t, *weight),
            self.points_name: (t, *(a.extent for a in self.axes(self.count))),
        }
        return tuple(TensorSpec(n, s) for n, s in shapes.items())

    def axes(self, across: Dim) -> tuple[Axis, ...]:
        """Return the convolution's axes, with tiles for the filtered one."""
        tiles = Axis(self.across, across)
        return tuple(tiles if a == self.window.wide else a for a in self.window.compute.axes)

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
        return Compute(out, axes, expr, reduce, combiner, at, self.window.compute.origin)

    def image(self) -> Compute:
        """Copy the input to scratch memory, which is padded with zeros."""
        name = self.window.data.tensor
        axes = tuple(Axis(f"{self.x}{d}", n) for d, n in enumerate(self.kernel.shape(name)))
        return self.compute(self.image_name, axes, Read(name, tuple(var(a.name) for a in axes)))

    def tiles(self) -> list[Compute]:
        """Build the input transform along the dim."""
        place, by = self.window.place, self.by
        axes = list(self.image().axes)
        axes[place] = Axis(self.u, self.count + self.segments - 1)
        index = [var(a.name) for a in axes]

        def load(k: int) -> Read:
            there = var(self.u) * by.outputs + (k + self.window.begin)
            return Read(self.image_name, (*index[:place], there, *index[place + 1 :]), 0.0)

        return [
            self.compute(
                self.tiles_name, tuple(axes), combine_terms(r, load), (Affine((), j), *index)
            )
            for j, r in enumerate(by.input)
        ]

    def points(self) -> Compute:
        """Build the products, summed over segments and the other reduction axes."""
        f = self.window
        at, to = list(f.data.index), list(f.weight.index)
        at[f.place] = var(self.across) + var(self.segment)
        to[f.filter_place] = var(self.segment)
        lead = Axis(self.j, self.by.points)
        data = Read(self.tiles_name, (var(lead.name), *at), f.data.fill)
        weight = Read(self.filters, (var(lead.name), *to))
        segment = Axis(self.segment, self.segments)
        reduce = tuple(segment if a == f.tap else a for a in f.compute.reduce)
        axes = (lead, *self.axes(self.count))
        return self.compute(self.points_name, axes, Apply("mul", (data, weight)), (), reduce)

    def parts(self) -> list[Compute]:
        """Build the output transform without elements outside; the last part has the most tiles."""
        f, m = self.window, self.by.outputs
        wide = f.wide.extent
        count = min(m, wide) if isinstance(wide, int) else m
        return [self.part(i, ceil_div(wide - i, m)) for i in reversed(range(count))]

    def part(self, i: int, across: Dim) -> Compute:
        """Build output `i` of each tile."""
        f, axes = self.window, self.axes(across)
        place = tuple(var(a.name) for a in axes)
        moved = {f.wide.name: var(self.across) * self.by.outputs + i}

        def load(k: int) -> Read:
            return Read(self.points_name, (Affine((), k), *place))

        store = tuple(entry.substitute(moved) for entry in f.compute.target)
        return self.compute(
            f.compute.out, axes, combine_paired_terms(self.by.output[i], load), store
        )
