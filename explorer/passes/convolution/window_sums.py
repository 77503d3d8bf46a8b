"""Structural matching of convolutions: sums over a channel and a 3 x 3 window, times a constant.

The sum covers all channels of the image, or those of the output's group.
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
