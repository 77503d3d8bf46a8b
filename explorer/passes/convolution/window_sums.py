"""Convolutions found by their structure: sums over a channel and a 3 x 3 window of one load, times
a constant; all channels of the image, or those of the output's group.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.affine import Affine, var
from explorer.ir.kernel import Axis, Compute, Kernel, Read
from explorer.ir.patterns.contraction import contraction
from explorer.passes.convolution.minimal_filters import TAPS


@dataclass(frozen=True, slots=True)
class WindowSum:
    """`out[.., h, w, .., o] = sum over kh, kw, c of x[.., h+kh+top, w+kw+left, .., c] * g`.

    `high` and `wide` are the axes of the output that the window moves along, `places` the dims of
    x that they index, `begins` top and left; `batch` the other axes but the output's channel;
    `filter_dims` the dims of the constant that kh, kw, c and o index. Where channels come in
    groups, `group` is their axis, x is read at `g * (a group's channels) + c`, the constant at `g *
    (a group's outputs) + o`.
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
    """The compute as a sum over a 3 x 3 window that moves by one, or why it is none."""
    found = contraction(c)
    if found is None:
        return "it is no contraction"
    if len(found.batch) > 1 or len(found.depth) != 3:
        return "it does not sum over a window of two dims and a channel, the same for all outputs"
    if found.b.tensor not in kernel.constants:
        return "its weights are no constant"
    if found.a.tensor not in kernel.inputs:
        return "its image is made in the same kernel"
    if any(kernel.dtype(t) != "float32" for t in (found.a.tensor, found.b.tensor, c.out)):
        return "it is not in float32"
    if found.a.fill not in (None, 0.0):
        return f"what lies outside is {found.a.fill}, not 0"
    moved = _windows(found.a, found.rows, found.depth)
    if moved is None:
        return "no window of 3 x 3 moves by one along two axes"
    (high, kh, at_h, top), (wide, kw, at_w, left) = moved
    (channel,) = (x for x in found.depth if x.name not in (kh.name, kw.name))
    batch = tuple(x for x in found.rows if x.name not in (high.name, wide.name))
    if not all(isinstance(x.extent, int) for x in (*found.batch, channel, found.column)):
        return "it has no number of channels before the run"
    if found.a.index[-1] != _grouped(found.batch, channel):
        return "its channels do not lie last"
    if not _plain(found.a, (at_h, at_w), {x.name for x in batch}):
        return "its image is not read dim by dim"
    columns = _grouped(found.batch, found.column)
    dims = _dims(found.b, (_bare(kh), _bare(kw), _bare(channel), columns))
    if dims is None:
        return "its weights are not read dim by dim"
    if c.target[-1].terms not in (_bare(found.column).terms, columns.terms):
        return "its channels do not lie last"
    return WindowSum(
        c,
        found.a,
        found.b,
        high,
        wide,
        channel,
        found.column,
        batch,
        found.batch,
        (at_h, at_w),
        (top, left),
        dims,
    )


Moved = tuple[Axis, Axis, int, int]  # an output axis, the window's, the dim of x, where it begins


def _windows(
    read: Read, rows: tuple[Axis, ...], depth: tuple[Axis, ...]
) -> tuple[Moved, Moved] | None:
    """The two dims that are read at `h + kh + begin`, in the order of the output's axes."""
    by_row, by_tap = {x.name: x for x in rows}, {x.name: x for x in depth}
    found: list[Moved] = []
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
        found.append((row, tap, d, entry.const))
    if len(found) != 2 or found[0][0] == found[1][0] or found[0][1] == found[1][1]:
        return None
    order = [x.name for x in rows]
    first, second = sorted(found, key=lambda m: order.index(m[0].name))
    return first, second


def _plain(read: Read, windows: tuple[int, int], names: set[str]) -> bool:
    """Whether the dims but the windows and the last are indexed by those axes alone, each once."""
    rest = [i for d, i in enumerate(read.index[:-1]) if d not in windows]
    seen = [i.bare for i in rest if isinstance(i, Affine) and i.terms]
    return None not in seen and sorted(map(str, seen)) == sorted(names)


def _dims(read: Read, wanted: tuple[Affine, ...]) -> tuple[int, int, int, int] | None:
    """The dims that are indexed so, where no other one moves."""
    places = {i: d for d, i in enumerate(read.index) if isinstance(i, Affine) and i.terms}
    moving = sum(isinstance(i, Affine) and bool(i.terms) for i in read.index)
    if set(places) != set(wanted) or moving != len(wanted):
        return None
    kh, kw, c, o = (places[i] for i in wanted)
    return kh, kw, c, o


def _grouped(group: tuple[Axis, ...], axis: Axis) -> Affine:
    """Where a channel of a group lies among those of all."""
    return sum((var(g.name) * axis.extent for g in group), _bare(axis))


def _bare(axis: Axis) -> Affine:
    return Affine(((axis.name, 1),))
