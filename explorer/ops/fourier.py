"""DFT and STFT: one contraction with a table of cosines and sines, or two shorter ones.

By definition, y[.., k, .., c] = sum over n, d: x[.., n, .., d] * table[k, n, d, c], complex numbers
as pairs. The table is a constant, or a kernel computes it if lengths are values of the run. These
sums are long and in float64, so that terms cancel as in exact arithmetic.

A length that is a product, A * B, takes two sums instead (Cooley and Tukey 1965). With n = n1 B + r
and k = k1 + A k2, and w = exp(-2 pi i / (A B)), the twiddle factor,

    z[r, k1] = sum over n1: x[n1 B + r] * w ** (k1 (n1 B + r))
    y[k1 + A k2] = sum over r: z[r, k1] * w ** (A r k2)

Both are matrix products whose fastest axis is k1, and short enough for the signal's dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, pi
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.dims import Dim, floor_div, is_symbolic, simplify
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read, apply
from explorer.ir.types import Tensor
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, Nest, shape_of
from explorer.ops.record import Array, HostNumber, OperatorRecord, RunTime, Site
from explorer.ops.run_time import Host, symbolic
from explorer.ops.shape_rules import least
from explorer.process.budget import check_room

MOST_LENGTH = 2048  # for longer ones a fast transform is better


@dataclass(frozen=True, slots=True)
class Transform:
    """One transform: `rows` results of `count` elements, of a signal of `length`."""

    rows: Dim
    count: Dim
    length: Dim
    parts: int  # 1: the elements are real, 2: complex
    results: int
    inverse: bool
    onesided: bool


DOUBLE = "float64"


def table(t: Transform, low: Lowering) -> Var:
    """Return the contribution of each element to each result: [rows, count, parts, results]."""
    extents = [d for d in (t.rows, t.count, t.length) if isinstance(d, int)]
    if len(extents) == 3:
        return low.constant(_table(t, *extents), "table")
    return _table_kernel(t, low)


def _table(t: Transform, rows: int, count: int, length: int) -> Array:
    check_room(96 * rows * count, f"a table of {rows} frequencies by {count} elements")
    period = max(length, 1)
    turn = 2 * pi / period * ((np.arange(rows)[:, None] * np.arange(count)) % period)
    cosine, sine = np.cos(turn), np.sin(turn) * (1 if t.inverse else -1)
    factors = np.stack([np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)], -2)
    factors *= _factors(t, length)[:count, None, None]
    return np.ascontiguousarray(factors[:, :, : t.parts, : t.results])


def _factors(t: Transform, length: int) -> Array:
    """Return the weight of each element; in half a spectrum all but the ends count twice."""
    factors = np.full(length, 1 / max(length, 1) if t.inverse else 1.0)
    if t.inverse and t.onesided:
        factors[1 : (length + 1) // 2] *= 2
        factors[length // 2 + 1 :] = 0
    return factors


def _table_kernel(t: Transform, low: Lowering) -> Var:
    """Return the same table for symbolic lengths, computed by a kernel."""
    nest, dtype = low.nest("dft_table"), DOUBLE
    result = low.temporary("table", (t.rows, t.count, t.parts, t.results), dtype)
    axes = [Axis(n, e) for n, e in zip("kndc", shape_of(result), strict=True)]
    k, n, d, c = (IndexValue(var(a.name)) for a in axes)
    length = Const(t.length, "int64")
    step = call("mod", call("mul", k, n), call("max", length, 1, dtype="int64"))
    period = call(f"cast_{dtype}", length)
    part = call("div", call(f"cast_{dtype}", step), period)
    turn = call("mul", part, 2 * pi, dtype=dtype)
    sine = call("mul", call("sin", turn), 1.0 if t.inverse else -1.0, dtype=dtype)
    off = call("where", call("gt", c, d), sine, call("neg", sine))
    value: Expr = call("where", call("eq", c, d), call("cos", turn), off)
    if t.inverse:
        value = call("div", value, period)
    if t.inverse and t.onesided:
        twice = call("mul", value, 2.0, dtype=dtype)
        middle = call("eq", call("mul", n, 2, dtype="int64"), length)
        once = call("or", call("eq", n, 0, dtype="int64"), middle)
        value = call("where", once, value, twice)
    nest.compute("y", shape_of(result), dtype, axes, value)
    return nest.into(result)


# A length that is a product, in two sums.

LANES = 16  # elements of the widest vectors: rows of matrices are padded to them


def _split(t: Transform) -> tuple[int, int] | None:
    """Return the factors of a length that take the fewest products.

    Return None if one sum takes no more.
    """
    if not (isinstance(t.length, int) and isinstance(t.rows, int)):
        return None
    n, best = t.length, None
    least_products = (
        2 * n * _round_to_lanes(t.results * t.rows) * t.parts
    )  # of float64, which takes twice as long
    for a in range(2, n // 2 + 1):
        if n % a:
            continue
        rows = t.results * ceil(t.rows / a)
        products = n * _round_to_lanes(2 * a) * t.parts + 2 * (n // a) * rows * _round_to_lanes(a)
        if products < least_products:
            least_products, best = products, (a, n // a)
    return best


def _round_to_lanes(count: int) -> int:
    return LANES * ceil(count / LANES)


def _twiddles(steps: Array, period: int, inverse: bool) -> Array:
    """Return twiddle factors, exp(-2 pi i steps / whole), as [2, 2, ...]: from parts to parts."""
    turn = 2 * pi / period * (steps % period)
    cosine, sine = np.cos(turn), np.sin(turn) * (1 if inverse else -1)
    return np.stack([np.stack([cosine, sine]), np.stack([-sine, cosine])])


def _in_two_sums(
    low: Lowering,
    t: Transform,
    pair: tuple[int, int],
    at: int,
    element: Callable[[Nest, Affine], Expr],
    weights: Array | None = None,
) -> None:
    """Bind the result, whose dim `at` is the transformed one, to both passes and their rows.

    `element` reads the signal's element n, part `d`, at the other axes i0, i1, ..; `weights` are
    factors of the elements.
    """
    (a, b), dtype = pair, low.site.dtype()
    work = DOUBLE if dtype == DOUBLE else "float32"
    count = ceil(min(t.count, a * b) / b) if isinstance(t.count, int) else a  # beyond it x is 0
    high = ceil(t.rows / a)
    outer = [Axis(f"i{d}", e) for d, e in enumerate(low.shape[:-1]) if d != at]
    names, extents = [var(x.name) for x in outer], [x.extent for x in outer]

    def constant(value: Array, hint: str) -> Var:
        return low.constant(np.ascontiguousarray(value, work), hint)

    n = b * np.arange(count) + np.arange(b)[:, None]
    factors = _factors(t, a * b)[n] * (1 if weights is None else weights[n])
    twiddles = _twiddles(n[..., None] * np.arange(a), a * b, t.inverse) * factors[..., None]
    twiddles = twiddles.transpose(2, 3, 0, 1, 4)[:, :, : t.parts]  # [r, n1, part, part of z, k1]
    nest = low.nest("fft_first_pass")
    table = constant(twiddles.reshape(b, count, t.parts, 2 * a), "first_twiddles")
    x = element(nest, var("n") * b + var("r"))
    x = x if work == dtype else call(f"cast_{work}", x)
    factor = Read(nest.tensor(table, "twiddles"), tuple(map(var, "rndp")))
    axes, over = [Axis("r", b), Axis("p", 2 * a)], [Axis("n", count), Axis("d", t.parts)]
    shape, store = (*extents, 2 * a * b), (*names, var("r") * (2 * a) + var("p"))
    nest.compute("z", shape, work, [*outer, *axes], apply("mul", x, factor), over, "sum", store)
    parts = nest.into(low.temporary("parts", shape, work))

    twiddles = _twiddles(np.arange(b)[:, None] * np.arange(high), b, t.inverse)
    twiddles = twiddles.transpose(2, 0, 1, 3)[:, :, : t.results]  # [r, part of z, part, k2]
    nest = low.nest("fft_second_pass")
    table = constant(twiddles.reshape(2 * b, t.results * high), "second_twiddles")
    z = Read(nest.tensor(parts, "z"), (*names, var("q") * a + var("k")))
    factor = Read(nest.tensor(table, "twiddles"), (var("q"), var("m")))
    axes, over = [Axis("m", t.results * high), Axis("k", a)], [Axis("q", 2 * b)]
    shape, store = (*extents, t.results * high * a), (*names, var("m") * a + var("k"))
    nest.compute("y", shape, work, [*outer, *axes], apply("mul", z, factor), over, "sum", store)
    rows = nest.into(low.temporary("rows", shape, work))

    nest = low.nest("fft_rows")
    axes = [Axis(f"i{d}", e) for d, e in enumerate((*low.shape[:-1], t.results))]
    k = var(axes[-1].name) * (high * a) + var(axes[at].name)
    y: Expr = Read(nest.tensor(rows, "y"), (*names, k))
    nest.compute("rows", low.shape, dtype, axes, y if work == dtype else call(f"cast_{dtype}", y))
    nest.into(low.result)


# DFT.


def _form(site: Site) -> tuple[Transform, tuple[Dim, ...]]:
    """Return the transform, and a step for each dim before the last: 1 if it is transformed."""
    shape, dft_length = site.shape(), site.dims("dft_length")
    rank = len(shape)
    if rank > 1 and is_symbolic(shape[-1]):
        site.unsupported(f"a last dim of {shape[-1]}, which must be 1 or 2")
    if rank < 2 or shape[-1] not in (1, 2):
        site.fail(f"an input of shape {shape}, whose last dim must be 1 or 2")
    inverse, onesided = bool(site.integer("inverse")), bool(site.integer("onesided"))
    steps, extent = site.dims("steps"), site.dims("extent")
    if steps is None or extent is None:
        axis = site.axis(rank, -2)
        if axis == rank - 1:
            site.fail("the last dim holds the parts of complex numbers")
        steps, extent = tuple(int(d == axis) for d in range(rank - 1)), (shape[axis],)
    n = extent[0]
    full_length = simplify(2 * (n - 1)) if inverse and onesided else n
    length = dft_length[0] if dft_length else full_length
    half = simplify(floor_div(length, 2) + 1)
    rows = half if onesided and not inverse else length
    count = half if inverse and onesided else length
    real = inverse and onesided
    parts = 2 if shape[-1] == 2 else 1
    results = 1 if real else 2
    count = least(site.env, (count, n))
    return Transform(rows, count, length, parts, results, inverse, onesided), steps


def _types(site: Site) -> tuple[Tensor, ...]:
    t, steps = _form(site)
    dims = site.dims("result")
    if dims is None:
        dims = tuple(
            t.rows if step == 1 else n for n, step in zip(site.shape(), steps, strict=False)
        )
    return (Tensor((*dims, t.results), site.dtype()),)


def _lower(low: Lowering) -> None:
    site = low.site
    t, steps = _form(site)
    if isinstance(t.length, int) and t.length > MOST_LENGTH:
        site.unsupported(f"a transform of length {t.length} has no kernel rule")
    fixed = all(isinstance(s, int) for s in steps)
    pair = _split(t) if fixed else None
    if pair:
        _in_two_sums(low, t, pair, steps.index(1), partial(_element, low, steps))
        return
    factors = table(t, low)
    nest = low.nest("dft")
    axes = [Axis(f"i{d}", e) for d, e in enumerate(low.shape[:-1])]
    c, n, d = Axis("c", t.results), Axis("n", t.count), Axis("d", t.parts)
    row = Affine()
    index: list[Affine | Expr] = []
    for axis, step in zip(axes, steps, strict=True):
        row = row + var(axis.name) * step
        place = var(axis.name) * simplify(1 - step) + var("n") * step
        index.append(place if fixed else IndexValue(place))
    k: Affine | Expr = row if fixed else IndexValue(row)
    x = Read(nest.tensor(site.arg(0), "x"), (*index, var("d")))
    factor = Read(nest.tensor(factors, "table"), (k, var("n"), var("d"), var("c")))
    _contract(low, nest, [*axes, c], x, factor, [n, d])


def _element(low: Lowering, steps: Sequence[Dim], nest: Nest, n: Affine) -> Expr:
    """Read element n along the transformed dim, which is 0 beyond the signal."""
    place = (n if step == 1 else var(f"i{d}") for d, step in enumerate(steps))
    return Read(nest.tensor(low.site.arg(0), "x"), (*place, var("d")), 0.0)


def _contract(
    low: Lowering, nest: Nest, axes: Sequence[Axis], x: Expr, factor: Expr, over: Sequence[Axis]
) -> None:
    dtype = low.site.dtype()
    plain = dtype == DOUBLE
    product = apply("mul", x if plain else call(f"cast_{DOUBLE}", x), factor)
    nest.compute("y" if plain else "acc", low.shape, DOUBLE, axes, product, over, "sum")
    if not plain:
        total = Read("acc", tuple(var(a.name) for a in axes))
        nest.compute("y", low.shape, dtype, axes, call(f"cast_{dtype}", total))
    nest.into(low.result)


def _reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x = args[0]
    axis = attrs["steps"].index(1) if "steps" in attrs else attrs.get("axis", -2) % x.ndim
    length = attrs.get("dft_length")
    length = length[0] if isinstance(length, tuple) else length
    signal = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    if attrs.get("inverse") and attrs.get("onesided"):
        return np.fft.irfft(signal, length, axis)[..., None].astype(x.dtype)
    if not (signal.shape[axis] if length is None else length):  # NumPy has no transform of nothing
        rows = 1 if attrs.get("onesided") else 0
        return np.zeros((*signal.shape[:axis], rows, *signal.shape[axis + 1 :], 2), x.dtype)
    spectrum = (np.fft.ifft if attrs.get("inverse") else np.fft.fft)(signal, length, axis)
    if attrs.get("onesided"):
        spectrum = np.take(spectrum, np.arange(spectrum.shape[axis] // 2 + 1), axis)
    return np.stack([spectrum.real, spectrum.imag], -1).astype(x.dtype)


def _names(site: Site) -> tuple[HostNumber, ...]:
    rank = len(site.shape())
    steps = (HostNumber(f"step{d}", 0, 1) for d in range(rank - 1))
    dims = (HostNumber(f"dim{d}") for d in range(rank - 1))
    return (*steps, *dims, HostNumber("extent"), HostNumber("length"))


def _values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("DFT", attrs, args)
    shape = host.required(0)
    axis_argument = host.integers(2)
    default = attrs.get("axis", -2)
    default = next(iter(default), -2) if isinstance(default, tuple) else default
    axis = host.axis(axis_argument[0] if axis_argument else int(default), len(shape))
    lengths = host.integers(1)
    inverse, onesided = bool(attrs.get("inverse")), bool(attrs.get("onesided"))
    dft_length = attrs.get("dft_length")
    dft_length = next(iter(dft_length), None) if isinstance(dft_length, tuple) else dft_length
    full_length = 2 * (shape[axis] - 1) if inverse and onesided else shape[axis]
    length = lengths[0] if lengths else (full_length if dft_length is None else int(dft_length))
    if axis == len(shape) - 1 or length < 1:
        host.fail(f"axis {axis} of {shape} cannot be transformed with length {length}")
    values = {"extent": shape[axis], "length": length}
    for d, n in enumerate(shape[:-1]):
        rows = length // 2 + 1 if onesided and not inverse else length
        values |= {f"step{d}": int(d == axis), f"dim{d}": rows if d == axis else n}
    return values


def _symbolic(site: Site, symbols: Mapping[str, Dim]) -> Site:
    rank = len(site.shape())
    return symbolic(
        site,
        site.arg(0),
        steps=tuple(symbols[f"step{d}"] for d in range(rank - 1)),
        result=tuple(symbols[f"dim{d}"] for d in range(rank - 1)),
        extent=symbols["extent"],
        dft_length=symbols["length"],
    )


# STFT: the transforms of windows of a signal.


def _frames(site: Site) -> tuple[Dim, Dim, Dim]:
    """Return the distance, the length and the number of frames."""
    step, frame_length = site.dims("frame_step"), site.dims("frame_length")
    length = frame_length[0] if frame_length else (site.shape(2)[0] if site.has(2) else None)
    if not step or length is None:
        site.unsupported("frames of unknown length have no kernel rule")
    if isinstance(step[0], int) and step[0] < 1:
        site.fail(f"frames are {step[0]} elements apart", expected="a positive frame_step")
    if isinstance(length, int) and length < 1:
        site.fail(f"frames have {length} elements", expected="a positive frame_length")
    count = site.dims("frames")
    free_length = simplify(site.shape()[1] - length)
    return step[0], length, count[0] if count else simplify(floor_div(free_length, step[0]) + 1)


def _signal_parts(site: Site) -> int:
    """Return 2 for complex elements, and 1 for real ones, which may be without a last dim of 1."""
    shape = site.shape()
    if len(shape) not in (2, 3):
        site.fail(f"a signal has rank 2 or 3, and this one rank {len(shape)}")
    parts = shape[2] if len(shape) == 3 else 1
    if not isinstance(parts, int):
        site.unsupported(f"a last dim of {parts}, which must be 1 or 2")
    return parts if parts in (1, 2) else site.fail(f"the last dim must be 1 or 2, and is {parts}")


def _frame_transform(site: Site) -> Transform:
    _, length, _ = _frames(site)
    onesided = bool(site.integer("onesided", 1))
    rows = simplify(floor_div(length, 2) + 1) if onesided else length
    return Transform(rows, length, length, _signal_parts(site), 2, False, onesided)


def _stft_types(site: Site) -> tuple[Tensor, ...]:
    rows = site.dims("rows")
    t = _frame_transform(site)
    shape = (site.shape()[0], _frames(site)[2], rows[0] if rows else t.rows, 2)
    return (Tensor(shape, site.dtype()),)


def _lower_stft(low: Lowering) -> None:
    site = low.site
    step, length, _ = _frames(site)
    if isinstance(length, int) and length > MOST_LENGTH:
        site.unsupported(f"frames of {length} elements have no kernel rule")
    t = _frame_transform(site)
    window = low.array(site.arg(2)) if site.has(2) else None

    def element(nest: Nest, n: Affine) -> Expr:
        part = (var("d"),) if len(site.shape()) == 3 else ()
        x = Read(nest.tensor(site.arg(0), "x"), (var("i0"), var("i1") * step + n, *part))
        if window is not None or not site.has(2):
            return x
        return call("mul", x, nest.load(site.arg(2), "window", (n,)))

    pair = _split(t)
    if pair:
        _in_two_sums(low, t, pair, 2, element, window)
        return
    factors = table(t, low)
    nest = low.nest("stft")
    axes = [Axis(f"i{d}", e) for d, e in enumerate(low.shape[:-1])]
    x = element(nest, var("n"))
    if window is not None:
        x = call("mul", x, nest.load(site.arg(2), "window", (var("n"),)))
    factor = Read(nest.tensor(factors, "table"), tuple(map(var, ("i2", "n", "d", "c"))))
    over = [Axis("n", length), Axis("d", t.parts)]
    _contract(low, nest, [*axes, Axis("c", t.results)], x, factor, over)


def _stft_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, _, window, _ = (*args, None, None, None)[:4]
    x = x if x.ndim == 3 else x[..., None]
    numbers = (attrs.get("frame_step"), attrs.get("frame_length"))
    step, length = (v[0] if isinstance(v, tuple) else v for v in numbers)
    length = len(window) if length is None else length
    if length > x.shape[1]:
        frames = np.empty((len(x), 0, length, x.shape[2]), x.dtype)
    else:
        frames = np.lib.stride_tricks.sliding_window_view(x, length, 1)[:, :: int(step or 1)]
        frames = np.moveaxis(frames, -1, 2)
    frames = frames if window is None else frames * window[:, None]
    return _reference({"axis": 2, "onesided": attrs.get("onesided", 1)}, [frames])


def _stft_names(site: Site) -> tuple[HostNumber, ...]:
    return (
        HostNumber("step", 1),
        HostNumber("length", 1),
        HostNumber("frames"),
        HostNumber("rows", 1),
    )


def _stft_values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("STFT", attrs, args)
    signal, window = host.required(0), host.integers(2)
    attributes = [attrs.get(n) for n in ("frame_step", "frame_length")]
    step, length = (
        host.single(i) if host.integers(i) else next(iter(v), None) if isinstance(v, tuple) else v
        for i, v in zip((1, 3), attributes, strict=True)
    )
    length = window[0] if length is None and window else length
    if not step or not length or step < 1 or length < 1 or signal[1] < length:
        host.fail(f"frames of {length} elements, {step} apart, do not fit a signal of {signal[1]}")
    rows = length // 2 + 1 if attrs.get("onesided", 1) else length
    frames = (signal[1] - length) // step + 1
    return {"step": step, "length": length, "frames": frames, "rows": rows}


def _stft_symbolic(site: Site, symbols: Mapping[str, Dim]) -> Site:
    window = site.args[2] if site.has(2) else None
    return symbolic(
        site,
        site.arg(0),
        None,
        window,
        frame_step=symbols["step"],
        frame_length=symbols["length"],
        frames=symbols["frames"],
        rows=symbols["rows"],
    )


RECORDS = (
    OperatorRecord(
        "DFT",
        "matmul",
        _types,
        _reference,
        _lower,
        None,
        {1: "dft_length", 2: "axis"},
        first=17,
        run_time=RunTime(frozenset({1, 2}), _names, _values, _symbolic),
    ),
    OperatorRecord(
        "STFT",
        "matmul",
        _stft_types,
        _stft_reference,
        _lower_stft,
        None,
        {1: "frame_step", 3: "frame_length"},
        first=17,
        run_time=RunTime(frozenset({1, 3}), _stft_names, _stft_values, _stft_symbolic),
        ranks={2: (1, 1)},
    ),
)
