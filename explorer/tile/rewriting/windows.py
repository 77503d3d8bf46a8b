"""Reductions over sliding windows without a padded copy, several results at a time, with epilogue.

    Fill h; Load h = x; Reduce t = reduction over r of h[s*i + r] * w[r]; Map y = f(t)

becomes a `Window` that reduces the part of each window that lies inside of `x` and stores `f` of
it: neither the padded copy `h` nor the reduction `t` goes to memory. A reduction without a copy or
a map is rewritten alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.devices.model import Device
from explorer.ir.affine import Affine, var
from explorer.ir.combiners import COMBINERS
from explorer.ir.dims import product
from explorer.ir.kernel import Const
from explorer.ir.scalar_functions import CONVERSIONS, SCALAR_FUNCTIONS
from explorer.ir.tile_program import (
    Border,
    Do,
    Fetch,
    Fill,
    For,
    Load,
    Map,
    Reduce,
    Span,
    Statement,
    TileExpr,
    TileProgram,
    Window,
    dtype_of_tile,
    fetches,
)
from explorer.ir.tile_traversal import reads, substitute, without_unused, writes

DTYPES = ("float32", "float64")
LEAST_LANES = 4  # of float32
MOST_PLACES = 64  # of a window; chosen, no measurement kept


def reduce_windows(p: TileProgram, device: Device) -> TileProgram:
    """Replace reductions over sliding windows by windows that read the unpadded data."""
    windows = windows_of(p.body, device)
    if not windows:
        return p
    body: list[Statement] = []
    done = 0
    for n, s in enumerate(p.body):
        if n >= done:
            count, window = windows.get(n, (1, s))
            body.append(window)
            done = n + count
    return without_unused(replace(p, body=tuple(body)))


def windows_of(body: Sequence[Statement], device: Device) -> dict[int, tuple[int, Window]]:
    """Return windows with how many statements each replaces, by the position of the first."""
    windows: dict[int, tuple[int, Window]] = {}
    for n, s in enumerate(body):
        if not isinstance(s, Reduce):
            continue
        group: tuple[Statement, ...] = (s,)
        if n >= 2 and _is_copy(body, n):
            group = (*body[n - 2 : n], s)
        if n + 1 < len(body) and _is_mapped(s, body[n + 1 :]):
            group = (*group, body[n + 1])
        first = n - 2 if isinstance(group[0], Fill) else n
        window = window_of(group, device)
        if window is not None:
            windows[first] = len(group), window
    return windows


def _is_copy(body: Sequence[Statement], n: int) -> bool:
    """Return True if the two statements before a reduction make a padded copy for it alone."""
    match body[n - 2 : n]:
        case [Fill(buffer), Load(target, _, _)] if target.buffer == buffer:
            return not _is_read(body[n + 1 :], buffer.name)
    return False


def _is_mapped(s: Reduce, after: Sequence[Statement]) -> bool:
    """Return True if the next statement maps a reduction's result, which nothing else reads."""
    if not isinstance(after[0], Map) or s.target.buffer.kind != "scratch":
        return False
    name = s.target.buffer.name
    return any(b.name == name for b in reads(after[0])) and not _is_read(after[1:], name)


def _is_read(body: Sequence[Statement], name: str) -> bool:
    """Return True if a buffer is read before it is overwritten by another tensor."""
    for s in body:
        written = any(b.name == name for b in writes(s))
        if (written and isinstance(s, For)) or any(b.name == name for b in reads(s)):
            return True  # a loop may write only a part of it
        if written:
            return False
    return False


def window_of(group: Sequence[Statement], device: Device) -> Window | None:
    """Return the window that the statements form, None if it has no vector form."""
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
        neutral = fill.value == COMBINERS[s.combiner].identity(s.dtype)
        moved = _in_place(s, data, copy) if neutral else None
        if moved is None:
            return None
        data, borders = moved
    elif weights is not None and _slides(s, weights) and not _slides(s, data):
        data, weights = weights, data
    mapped = next((g for g in group if isinstance(g, Map)), None)
    window = Window(s, data, weights, borders, s.target, s.target)
    if mapped is not None:
        joined = _join_map(s, mapped)
        if joined is None:
            return None
        window = replace(window, target=joined.target, expr=joined.expr)
    return window if _has_form(window, device) else None


def _pair(s: Reduce) -> tuple[Fetch, Fetch | None] | None:
    match s.expr:
        case Fetch() as data if COMBINERS[s.combiner].has_vectors_of(s.dtype):
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
    """Return True if neighbouring windows overlap in memory."""
    step = f.offset.factor(s.spans[-2].axis)
    steps = [(f.offset.factor(o.axis), o.size) for o in s.over]
    reach = sum(k * (n - 1) for k, n in steps if isinstance(k, int) and isinstance(n, int))
    return isinstance(step, int) and 0 < step <= reach


def _in_place(s: Reduce, data: Fetch, copy: Load) -> tuple[Fetch, tuple[Border, ...]] | None:
    """Return a read of a padded copy as a read of its source, with the borders it may cross."""
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
    """Return True if the results end where the dim does, so that none lies outside."""
    axes = {a.axis: a for a in s.spans}
    axis = axes.get(index.bare or "")
    return axis is not None and axis.extent == span.extent and not span.clip_low and axis.clip_high


def _indices(s: Reduce, data: Fetch, copy: Load) -> tuple[Affine, ...] | None:
    """Return the index of each dim of what was copied, from the single address in the copy.

    The address in the copy is a number in mixed radix whose digits are the dims, each below the
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
    indices = [d.base for d in dims]
    reach = [0] * len(dims)
    moving = [(n, t) for n, t in enumerate(strides) if t != 0]
    for n, stride in moving:
        indices[n] = indices[n] + left // stride
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
        indices[place] = indices[place] + (var(name) - span.base) * turns
        reach[place] += turns * (span.size - 1)
    inside = all(r < n for r, n in zip(reach, sizes, strict=True) if isinstance(n, int))
    return tuple(indices) if inside else None


def _join_map(s: Reduce, after: Map) -> Map | None:
    """Return a map in the axes of the reduction that it reads point by point, else None."""
    if len(after.spans) != len(s.spans):
        return None
    names = {}
    for own, other in zip(s.spans, after.spans, strict=True):
        if replace(other, axis=own.axis) != own:
            return None
        names[other.axis] = var(own.axis)
    expr = substitute(after.expr, names)
    read = [f for f in fetches(expr) if f.buffer == s.target.buffer]
    if any(f != s.target for f in read):
        return None
    offset = after.target.offset.substitute(names)
    return Map(replace(after.target, offset=offset), s.spans, expr)


def _has_form(w: Window, device: Device) -> bool:
    """Return True if vector instructions exist for the whole window."""
    s, dense, along = w.reduction, w.dense.axis, w.along.axis
    dtype = s.dtype
    every = [w.data, w.target, *w.operands, *([w.weights] if w.weights else [])]
    if dtype not in DTYPES or device.lanes < LEAST_LANES:
        return False
    if any(
        b.first.factor(dense) != 0 for b in w.borders
    ):  # lanes would have different parts of windows
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
    return _is_vector(w.expr, dtype)


def _writes_what_it_reads(w: Window) -> bool:
    """Return True if results overwrite elements that later results need."""
    place = w.target.buffer.name
    reduced = [w.data, *([w.weights] if w.weights else [])]
    if any(f.buffer.name == place for f in reduced):
        return True
    return any(f.buffer.name == place and f.offset != w.target.offset for f in w.operands)


def _is_vector(expr: TileExpr, dtype: str) -> bool:
    """Return True if an expression of a dtype has a vector form."""
    match expr:
        case Do(op, args):
            plain = not op.startswith(CONVERSIONS) and op not in ("where", "pow")
            plain = plain and SCALAR_FUNCTIONS[op].has_vectors_of(dtype)
            plain = plain and dtype_of_tile(expr) == dtype
            return plain and all(_is_vector(a, dtype) for a in args)
        case Const(value, own):
            return own == dtype and isinstance(value, (int, float))
        case Fetch():
            return True
    return False
