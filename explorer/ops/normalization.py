"""Normalisations: moments over some axes, then one expression; or a known scale and shift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.dims import Shape, product
from explorer.ir.kernel import Axis, Const, Expr, Read
from explorer.ir.types import Tensor
from explorer.ops.arithmetic import power
from explorer.ops.elementwise import call
from explorer.ops.images.pooling import scaled
from explorer.ops.lowering import Lowering, Nest, at, letters, shape_of
from explorer.ops.record import Array, OperatorRecord, Site, same_type, single
from explorer.ops.shape_rules import agree, broadcast, demand_shape

# BatchNormalization: a scale and a shift per channel, computed here where all is known.


def _batch_types(site: Site) -> tuple[Tensor, ...]:
    shape = site.shape()
    if len(shape) < 2:
        site.fail(f"the input has rank {len(shape)}; it needs a channel dim")
    for i in range(1, 5):
        rows = site.shape(i)
        if len(rows) != 1 or (rows[0] != shape[1] and not agree(rows[0], shape[1], site.env)):
            site.fail(f"argument {i} has shape {site.shape(i)} for {shape[1]} channels")
    if site.results > 1 and not site.integer("training_mode"):
        site.unsupported("the moments of old versions have no kernel rule")
    return (site.tensor(0), site.tensor(3), site.tensor(4))[: site.results]


def _lower_batch(low: Lowering) -> None:
    if low.site.integer("training_mode"):
        _lower_batch_training(low)
        return
    site, nest = low.site, low.nest("batch_norm")
    axes = _image_axes(site.shape())
    x, c = at(nest.tensor(site.arg(0), "x"), axes), (var(axes[1].name),)
    parts = [low.array(site.arg(i)) for i in range(1, 5)]
    constants = [p for p in parts if p is not None]
    if len(constants) == 4:
        scale, shift = _scale_and_shift(constants, site.number("epsilon", 1e-5))
        a = nest.load(low.constant(scale, "scale"), "scale", c)
        b = nest.load(low.constant(shift, "shift"), "shift", c)
        y: Expr = call("add", call("mul", x, a), b)
    else:
        names = ("scale", "bias", "mean", "variance")
        s, b, m, v = (nest.load(site.arg(i + 1), n, c) for i, n in enumerate(names))
        y = call("add", call("mul", call("sub", x, m), call("mul", s, _inverse(v, site))), b)
    nest.compute("y", low.shape, site.dtype(), axes, y)
    nest.into(low.result)


def _lower_batch_training(low: Lowering) -> None:
    """Normalise by the moments of the batch, and update the running ones."""
    site, dtype = low.site, low.site.dtype()
    axes = _image_axes(site.shape())
    channel_axes, over = (axes[1],), (axes[0], *axes[2:])
    c = (var(axes[1].name),)
    if low.is_read(low.result.name):
        nest = low.nest("batch_norm")
        moments = Moments(nest, low, at(nest.tensor(site.arg(0), "x"), axes), channel_axes, over)
        scaled_up = call("mul", moments.normal, nest.load(site.arg(1), "scale", c))
        y = call("add", scaled_up, nest.load(site.arg(2), "bias", c))
        nest.compute("y", low.shape, dtype, axes, y)
        nest.into(low.result)
    share = site.number("momentum", 0.9)
    for result, position in zip(low.results[1:], (3, 4), strict=False):
        if low.is_read(result.name):
            nest = low.nest("running_moment")
            moments = Moments(
                nest, low, at(nest.tensor(site.arg(0), "x"), axes), channel_axes, over
            )
            new = moments.mean if position == 3 else moments.variance
            assert new is not None
            old = nest.load(site.arg(position), "old", c)
            moved = call(
                "add",
                call("mul", old, share, dtype=dtype),
                call("mul", new, 1 - share, dtype=dtype),
            )
            nest.compute("y", shape_of(result), dtype, channel_axes, moved)
            nest.into(result)


def _image_axes(shape: Shape) -> tuple[Axis, ...]:
    names = {2: "nc", 3: "ncw", 4: "nchw", 5: "ncdhw"}.get(len(shape))
    return letters(shape) if names is None else tuple(Axis(n, e) for n, e in zip(names, shape))


def _inverse(variance: Expr, site: Site) -> Expr:
    """Return 1 / sqrt(variance + epsilon)."""
    dtype = site.dtype()
    shifted = call("add", variance, site.number("epsilon", 1e-5), dtype=dtype)
    return call("div", Const(1.0, dtype), call("sqrt", shifted))


def _scale_and_shift(parts: Sequence[Array], epsilon: float) -> tuple[Array, Array]:
    """Return the scale and shift of a normalisation by known moments, in double precision."""
    scale, bias, mean, variance = (p.astype(np.float64) for p in parts)
    factor = scale / np.sqrt(variance + epsilon)
    return factor.astype(parts[0].dtype), (bias - mean * factor).astype(parts[0].dtype)


def _batch_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, *parts = args[:5]
    over = (1, -1, *(1,) * (x.ndim - 2))
    scale, bias, mean, variance = (p.reshape(over) for p in parts)
    epsilon = x.dtype.type(attrs.get("epsilon", single(1e-5)))
    if not attrs.get("training_mode"):
        return scale * (x - mean) / np.sqrt(variance + epsilon) + bias
    other_dims = tuple(d for d in range(x.ndim) if d != 1)
    new = x.mean(axis=other_dims, keepdims=True), x.var(axis=other_dims, keepdims=True)
    y = scale * (x - new[0]) / np.sqrt(new[1] + epsilon) + bias
    share = x.dtype.type(attrs.get("momentum", single(0.9)))
    moved = (
        (old * share + fresh * (1 - share)).reshape(-1)
        for old, fresh in zip((mean, variance), new, strict=True)
    )
    return (y, *moved)


# Layer, RMS, instance and group normalisation: moments of the data.


class Moments:
    """The mean and the inverse deviation of rows of x; computes are added to a nest."""

    def __init__(
        self,
        nest: Nest,
        low: Lowering,
        x: Expr,
        outer: Sequence[Axis],
        over: Sequence[Axis],
        *,
        centre: bool = True,
    ) -> None:
        """Add the computes; without `centre` the mean is taken to be 0."""
        site, dtype, rows = low.site, low.site.dtype(), tuple(a.extent for a in outer)
        count = product(a.extent for a in over)
        self.mean: Expr | None = None
        self.centred = x
        if centre:
            nest.compute("sum", rows, dtype, outer, x, over, "sum")
            self.mean = scaled(at("sum", outer), count, dtype)
            self.centred = call("sub", x, self.mean)
        square = call("mul", self.centred, self.centred)
        nest.compute("squares", rows, dtype, outer, square, over, "sum")
        self.variance = scaled(at("squares", outer), count, dtype)
        self.inverse = _inverse(self.variance, site)
        self.normal = call("mul", self.centred, self.inverse)


def _split(site: Site, default: int = -1) -> tuple[tuple[Axis, ...], int]:
    axes = letters(site.shape())
    return axes, site.axis(len(axes), default)


def _layer_types(site: Site) -> tuple[Tensor, ...]:
    shape = site.shape()
    first = site.axis(len(shape), -1)
    shapes = [site.shape(i) for i in range(1, len(site.args)) if site.has(i)]
    if any(len(g) > len(shape) for g in shapes) or broadcast(site, [shape, *shapes]) != shape:
        site.fail(f"scale and bias of shapes {shapes} do not broadcast to the input's {shape}")
    moment = Tensor(tuple(1 if d >= first else n for d, n in enumerate(shape)), "float32")
    return (site.tensor(0), moment, moment)[: site.results]


def _lower_layer(low: Lowering) -> None:
    site, nest = low.site, low.nest("layer_norm")
    axes, first = _split(site)
    x = at(nest.tensor(site.arg(0), "x"), axes)
    moments = Moments(nest, low, x, axes[:first], axes[first:])
    y: Expr = call("mul", moments.normal, nest.along(site.arg(1), "scale", axes))
    if site.has(2):
        y = call("add", y, nest.along(site.arg(2), "bias", axes))
    nest.compute("y", low.shape, site.dtype(), axes, y)
    nest.into(low.result)
    for result, name in zip(low.results[1:], ("mean", "inverse"), strict=False):
        if low.is_read(result.name):
            _lower_moment(low, result, name)


def _lower_moment(low: Lowering, result: Var, name: str) -> None:
    nest = low.nest(f"layer_norm_{name}")
    axes, first = _split(low.site)
    outer, over = axes[:first], axes[first:]
    moments = Moments(nest, low, at(nest.tensor(low.site.arg(0), "x"), axes), outer, over)
    value = moments.mean if name == "mean" else moments.inverse
    assert value is not None
    store = tuple(var(a.name) for a in outer) + (Affine(),) * len(over)
    nest.compute("y", shape_of(result), "float32", outer, value, store=store)
    nest.into(result)


def _layer_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, scale, bias = (*args, None)[:3]
    over = tuple(range(attrs.get("axis", -1) % x.ndim, x.ndim))
    mean = x.mean(axis=over, keepdims=True, dtype=x.dtype)
    inverse = 1 / np.sqrt(
        np.square(x - mean).mean(axis=over, keepdims=True, dtype=x.dtype)
        + x.dtype.type(attrs.get("epsilon", single(1e-5)))
    )
    y = (x - mean) * inverse * scale
    return (y if bias is None else y + bias), mean, inverse


def _lower_rms(low: Lowering) -> None:
    site, nest = low.site, low.nest("rms_norm")
    axes, first = _split(site)
    x = at(nest.tensor(site.arg(0), "x"), axes)
    moments = Moments(nest, low, x, axes[:first], axes[first:], centre=False)
    y = call("mul", moments.normal, nest.along(site.arg(1), "scale", axes))
    nest.compute("y", low.shape, site.dtype(), axes, y)
    nest.into(low.result)


def _rms_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, scale = args[:2]
    over = tuple(range(attrs.get("axis", -1) % x.ndim, x.ndim))
    mean = np.square(x).mean(axis=over, keepdims=True, dtype=x.dtype)
    return x / np.sqrt(mean + x.dtype.type(attrs.get("epsilon", single(1e-5)))) * scale


def _rms_types(site: Site) -> tuple[Tensor, ...]:
    shape, scale = site.shape(), site.shape(1)
    if len(scale) > len(shape) or not all(
        a == b or agree(a, b, site.env) for a, b in zip(broadcast(site, [shape, scale]), shape)
    ):
        site.fail(f"a scale of shape {list(scale)} does not broadcast to the input's {list(shape)}")
    return (site.tensor(0),)


def _instance_types(site: Site) -> tuple[Tensor, ...]:
    if len(site.shape()) < 2:
        site.fail(f"the input has rank {len(site.shape())}; it needs a channel dim")
    for i, name in ((1, "the scale"), (2, "the bias")):
        demand_shape(site, i, site.shape()[1:2], name)
    return (site.tensor(0),)


def _group_types(site: Site) -> tuple[Tensor, ...]:
    shape, groups = site.shape(), site.integer("num_groups", 1)
    if len(shape) < 2 or groups < 1:
        site.fail(f"the input has rank {len(shape)}; it needs a channel dim, and a group or more")
    each = site.shape(1) != (groups,)  # version 18 has one scale per group, version 21 per channel
    for i, name in ((1, "the scale"), (2, "the bias")):
        demand_shape(site, i, shape[1:2] if each else (groups,), name)
    return (site.tensor(0),)


def _lower_instance(low: Lowering) -> None:
    site, nest = low.site, low.nest("instance_norm")
    axes = _image_axes(site.shape())
    x, c = at(nest.tensor(site.arg(0), "x"), axes), (var(axes[1].name),)
    moments = Moments(nest, low, x, axes[:2], axes[2:])
    scaled_up = call("mul", moments.normal, nest.load(site.arg(1), "scale", c))
    y = call("add", scaled_up, nest.load(site.arg(2), "bias", c))
    nest.compute("y", low.shape, site.dtype(), axes, y)
    nest.into(low.result)


def _instance_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, scale, bias = args
    return _normal(x, tuple(range(2, x.ndim)), attrs) * _column(scale, x) + _column(bias, x)


def _normal(x: Array, over: tuple[int, ...], attrs: Mapping[str, Any]) -> Any:
    centred = x - x.mean(axis=over, keepdims=True, dtype=x.dtype)
    variance = np.square(centred).mean(axis=over, keepdims=True, dtype=x.dtype)
    return centred / np.sqrt(variance + x.dtype.type(attrs.get("epsilon", single(1e-5))))


def _column(v: Array, x: Array) -> Array:
    return v.reshape(1, -1, *(1,) * (x.ndim - 2))


def _lower_group(low: Lowering) -> None:
    """Lower GroupNormalization: channels are g * each + c; scale and bias are per channel."""
    site, nest, shape = low.site, low.nest("group_norm"), low.shape
    groups, channels = site.integer("num_groups", 1), shape[1]
    if not isinstance(channels, int) or channels % groups or len(shape_of(site.arg(1))) != 1:
        site.unsupported(f"{channels} channels do not divide into {groups} groups")
    each = channels // groups if isinstance(channels, int) else 1
    n, g, c = Axis("n", shape[0]), Axis("g", groups), Axis("c", each)
    spatial = _image_axes(shape)[2:]
    channel = var("g") * each + var("c")
    place = (var("n"), channel, *(var(a.name) for a in spatial))
    moments = Moments(nest, low, Read(nest.tensor(site.arg(0), "x"), place), [n, g], [c, *spatial])
    # version 18 has one scale per group, version 21 one per channel
    per_group = shape_of(site.arg(1)) == (groups,) and groups != channels
    at_channel = (var("g") if per_group else channel,)
    scaled_up = call("mul", moments.normal, nest.load(site.arg(1), "scale", at_channel))
    y = call("add", scaled_up, nest.load(site.arg(2), "bias", at_channel))
    nest.compute("y", shape, site.dtype(), [n, g, c, *spatial], y, store=place)
    nest.into(low.result)


def _group_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, scale, bias = args
    groups = attrs["num_groups"]
    rows = x.reshape(x.shape[0], groups, prod(x.shape[1:]) // groups)
    y = _normal(rows, (2,), attrs).reshape(x.shape)
    repeat = 1 if scale.size == x.shape[1] else x.shape[1] // groups
    return y * _column(np.repeat(scale, repeat), x) + _column(np.repeat(bias, repeat), x)


# LRN: squares summed over neighbouring channels.


def _lrn_types(site: Site) -> tuple[Tensor, ...]:
    size = site.integer("size", 1)
    if size < 1:
        site.fail(f"size must be positive, and is {size}", expected="a positive size")
    return (site.tensor(0),)


def _lower_lrn(low: Lowering) -> None:
    site, nest, dtype = low.site, low.nest("lrn"), low.site.dtype()
    size = site.integer("size", 1)
    axes, k = _image_axes(site.shape()), Axis("k", size)
    place = [var(a.name) for a in axes]
    x = nest.tensor(site.arg(0), "x")
    near = Read(x, (place[0], place[1] + var("k") - (size - 1) // 2, *place[2:]), 0.0)
    nest.compute("squares", low.shape, dtype, axes, call("mul", near, near), [k], "sum")
    alpha, beta = site.number("alpha", 1e-4), site.number("beta", 0.75)
    spread = call("mul", at("squares", axes), alpha / size, dtype=dtype)
    base = call("add", spread, site.number("bias", 1.0), dtype=dtype)
    divisor = power(base, beta, Const(beta, dtype), dtype)
    nest.compute("y", low.shape, dtype, axes, call("div", at(x, axes), divisor))
    nest.into(low.result)


def _lrn_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, size = args[0], attrs["size"]
    before = (size - 1) // 2
    spatial = [(0, 0)] * (x.ndim - 2)
    padded = np.pad(np.square(x), [(0, 0), (before, size - 1 - before), *spatial])
    total = sum(padded[:, d : d + x.shape[1]] for d in range(size))
    bias, alpha, beta = attrs.get("bias", 1.0), attrs.get("alpha", 1e-4), attrs.get("beta", 0.75)
    return x / (bias + alpha / size * total) ** beta


# LpNormalization.


def _lower_lp(low: Lowering) -> None:
    site, nest, dtype = low.site, low.nest("lp_norm"), low.site.dtype()
    axes, axis = _split(site)
    outer, over = (*axes[:axis], *axes[axis + 1 :]), axes[axis : axis + 1]
    x, two = at(nest.tensor(site.arg(0), "x"), axes), site.integer("p", 2) == 2
    each = call("mul", x, x) if two else call("abs", x)
    nest.compute("total", tuple(a.extent for a in outer), dtype, outer, each, over, "sum")
    size: Expr = call("sqrt", at("total", outer)) if two else at("total", outer)
    zero = call("eq", size, 0.0, dtype=dtype)
    y = call("where", zero, Const(0.0, dtype), call("div", x, size))
    nest.compute("y", low.shape, dtype, axes, y)
    nest.into(low.result)


def _lp_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x = args[0]
    size = np.linalg.norm(x, attrs.get("p", 2), axis=attrs.get("axis", -1), keepdims=True)
    return np.where(size == 0, x.dtype.type(0), x / np.where(size == 0, 1, size)).astype(x.dtype)


RECORDS = (
    OperatorRecord(
        "BatchNormalization", "elementwise", _batch_types, _batch_reference, _lower_batch
    ),
    OperatorRecord(
        "LayerNormalization", "reduction", _layer_types, _layer_reference, _lower_layer, first=17
    ),
    OperatorRecord(
        "RMSNormalization", "reduction", _rms_types, _rms_reference, _lower_rms, first=23
    ),
    OperatorRecord(
        "InstanceNormalization", "reduction", _instance_types, _instance_reference, _lower_instance
    ),
    OperatorRecord(
        "GroupNormalization", "reduction", _group_types, _group_reference, _lower_group, first=18
    ),
    OperatorRecord(
        "LRN", "reduction", _lrn_types, _lrn_reference, _lower_lrn, ranks={0: (2, None)}
    ),
    OperatorRecord("LpNormalization", "reduction", same_type, _lp_reference, _lower_lp),
)
