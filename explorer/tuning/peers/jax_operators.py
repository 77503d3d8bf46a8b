"""ONNX operators as JAX calls.

Static attributes are read once, when a call is prepared. Shapes are those of the arrays, which JAX
knows when it traces. This imports JAX, so it is imported only if JAX is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as np

from explorer.ops.record import Site
from explorer.tuning.peers.model_forms import bilinear_sizes, border, static_integers

jax: Any = import_module("jax")  # by name: its types differ from version to version
jnp: Any = import_module("jax.numpy")
lax: Any = import_module("jax.lax")
nn: Any = import_module("jax.nn")

Run = Callable[..., Any]  # arrays in, an array or a tuple of them out
Make = Callable[[Site], Run]


def _always(run: Run) -> Make:
    return lambda site: run


# Elementwise, and whole rows.


def _clip(site: Site) -> Run:
    low, high = site.attrs.get("min"), site.attrs.get("max")
    return lambda x, least=low, most=high: jnp.clip(x, least, most)


def _gelu(site: Site) -> Run:
    approximate = site.text("approximate", "none") == "tanh"
    return lambda x: nn.gelu(x, approximate=approximate)


def _softmax(run: Run) -> Make:
    def make(site: Site) -> Run:
        axis = site.integer("axis", -1)
        if site.integer("flatten"):
            site.unsupported("takes several dims as one")
        return lambda x: run(x, axis)

    return make


def _reduction(run: Run) -> Make:
    def make(site: Site) -> Run:
        axes, keep = static_integers(site, 1, "axes"), bool(site.integer("keepdims", 1))
        return lambda x, *_: run(x, axis=axes or None, keepdims=keep)

    return make


def _length(x: Any, axis: Any, keepdims: bool) -> Any:
    return jnp.sqrt(jnp.sum(x * x, axis=axis, keepdims=keepdims))


def _gemm(site: Site) -> Run:
    alpha, beta = site.number("alpha", 1.0), site.number("beta", 1.0)
    left, right = site.integer("transA"), site.integer("transB")

    def run(a: Any, b: Any, c: Any = None) -> Any:
        y = alpha * ((a.T if left else a) @ (b.T if right else b))
        return y if c is None else y + beta * c

    return run


def _batch_norm(site: Site) -> Run:
    epsilon = site.number("epsilon", 1e-5)

    def run(x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
        slope = scale / jnp.sqrt(variance + epsilon)
        return x * _channel(slope, x) + _channel(bias - mean * slope, x)

    return run


def _layer_norm(site: Site) -> Run:
    axis, epsilon = site.integer("axis", -1), site.number("epsilon", 1e-5)

    def run(x: Any, scale: Any, bias: Any = 0.0) -> Any:
        axes = tuple(range(axis % x.ndim, x.ndim))
        apart = x - x.mean(axes, keepdims=True)
        variance = (apart * apart).mean(axes, keepdims=True)
        return apart * lax.rsqrt(variance + epsilon) * scale + bias

    return run


def _channel(values: Any, x: Any) -> Any:
    return values.reshape(-1, *(1,) * (x.ndim - 2))


# Windows.


def _paddings(site: Site, dims: int) -> list[tuple[int, int]]:
    if site.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        site.unsupported("pads by a rule")
    pads = site.integers("pads", (0,) * (2 * dims)) or (0,) * (2 * dims)
    return list(zip(pads[:dims], pads[dims:]))


def _window(site: Site) -> tuple[int, ...]:
    shape = site.integers("kernel_shape")
    return shape if shape is not None else site.unsupported("has no kernel_shape")


def _conv(site: Site) -> Run:
    dims = len(_window(site))
    pads, ones, groups = _paddings(site, dims), (1,) * dims, site.integer("group", 1)
    strides, dilations = site.integers("strides", ones), site.integers("dilations", ones)

    def run(x: Any, w: Any, b: Any = None) -> Any:
        y = lax.conv_general_dilated(
            x, w, strides, pads, rhs_dilation=dilations, feature_group_count=groups
        )
        return y if b is None else y + _channel(b, y)

    return run


def _pool(site: Site, start: float, step: Run) -> Run:
    window = _window(site)
    ones = (1,) * len(window)
    if site.results > 1 or site.integer("ceil_mode") or site.integers("dilations", ones) != ones:
        site.unsupported("rounds up, is dilated or gives places")
    strides = site.integers("strides", ones) or ones
    pads = [(0, 0), (0, 0), *_paddings(site, len(window))]
    return lambda x: lax.reduce_window(x, start, step, (1, 1, *window), (1, 1, *strides), pads)


def _max_pool(site: Site) -> Run:
    return _pool(site, -np.inf, lax.max)


def _average_pool(site: Site) -> Run:
    window = _window(site)
    total, counted = _pool(site, 0.0, lax.add), site.integer("count_include_pad")
    strides = site.integers("strides", (1,) * len(window)) or ()
    pads = _paddings(site, len(window))

    def run(x: Any) -> Any:
        if counted:
            return total(x) / float(np.prod(window))
        axes = zip(x.shape[2:], window, strides, pads)
        return total(x) / reduce(np.multiply.outer, [_inside(*axis) for axis in axes])

    return run


def _inside(size: int, window: int, stride: int, pads: tuple[int, int]) -> Any:
    """Return how many positions of each window along an axis lie inside of the image."""
    first = np.arange(0, size + sum(pads) - window + 1, stride) - pads[0]
    counts = np.minimum(first + window, size) - np.maximum(first, 0)
    return counts.astype(np.float32)


def _over_pixels(run: Run) -> Make:
    return lambda site: lambda x: run(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def _local_response(site: Site) -> Run:
    size, bias = site.integer("size"), site.number("bias", 1.0)
    alpha, beta = site.number("alpha", 1e-4), site.number("beta", 0.75)
    pads = [(0, 0), ((size - 1) // 2, size // 2), (0, 0), (0, 0)]

    def run(x: Any) -> Any:
        near = lax.reduce_window(x * x, 0.0, lax.add, (1, size, 1, 1), (1, 1, 1, 1), pads)
        return x / (bias + alpha / size * near) ** beta

    return run


# Recurrent layers.


def _lstm(site: Site) -> Run:
    """Compute one product for the inputs of all steps, then scan over them (`lax.scan`)."""
    if site.text("direction", "forward") != "forward" or site.integer("layout"):
        site.unsupported("is not a forward one over steps, batch, width")
    if site.has(4) or site.has(7) or site.attrs.get("activations"):
        site.unsupported("has lengths, peepholes or other activations")

    constant_weights = [None if v is None else jnp.asarray(_columns(v)) for v in site.values[1:3]]

    def run(
        x: Any, w: Any, r: Any, b: Any = None, _: Any = None, h: Any = None, c: Any = None
    ) -> Any:
        inputs, recurrent = (
            _columns(v) if k is None else k for k, v in zip(constant_weights, (w, r))
        )
        zero = jnp.zeros((x.shape[1], r.shape[2]), x.dtype)
        projected = x @ inputs if b is None else x @ inputs + b[0].reshape(2, -1).sum(0)
        state = (zero if h is None else h[0], zero if c is None else c[0])

        def step(state: Any, row: Any) -> Any:
            i, o, f, g = jnp.split(row + state[0] @ recurrent, 4, 1)
            c = nn.sigmoid(f) * state[1] + nn.sigmoid(i) * jnp.tanh(g)
            h = nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        (h, c), steps = lax.scan(step, state, projected)
        return steps[:, None], h[None], c[None]

    return run


def _columns(weights: Any) -> Any:
    """Transpose weights: [1, gates, inputs] → [inputs, gates]."""
    return weights[0].T


# fmt: off
CALLS: Mapping[str, Run] = {  # element-wise operators, and others without attributes
    "Add": jnp.add, "Sub": jnp.subtract, "Mul": jnp.multiply, "Div": jnp.divide, "Pow": jnp.power,
    "Abs": jnp.abs, "Neg": jnp.negative, "Exp": jnp.exp, "Log": jnp.log, "Sqrt": jnp.sqrt,
    "Relu": nn.relu, "Sigmoid": nn.sigmoid, "Tanh": jnp.tanh, "Erf": lax.erf,
    "Reciprocal": jnp.reciprocal, "MatMul": jnp.matmul, "Where": jnp.where,
    "Identity": lambda x: x, "Dropout": lambda x, *_: (x, None),
    "Sum": lambda *parts: reduce(jnp.add, parts),
}
# fmt: on


def _reshape(site: Site) -> Run:
    dims = static_integers(site, 1, "shape") or ()
    zero = site.integer("allowzero")
    return lambda x, *_: x.reshape(
        [x.shape[n] if d == 0 and not zero else d for n, d in enumerate(dims)]
    )


def _transpose(site: Site) -> Run:
    perm = site.integers("perm")
    return lambda x: jnp.transpose(x, perm)


def _flatten(site: Site) -> Run:
    axis = site.integer("axis", 1)
    return lambda x: x.reshape(int(np.prod(x.shape[:axis], dtype=np.int64)), -1)


def _squeeze(site: Site) -> Run:
    axes = static_integers(site, 1, "axes")
    return lambda x, *_: jnp.squeeze(x, axes)


def _unsqueeze(site: Site) -> Run:
    axes = static_integers(site, 1, "axes")
    return lambda x, *_: jnp.expand_dims(x, axes)


def _expand(site: Site) -> Run:
    dims = static_integers(site, 1, "shape") or ()
    return lambda x, *_: jnp.broadcast_to(x, np.broadcast_shapes(x.shape, dims))


def _concat(site: Site) -> Run:
    axis = site.integer("axis")
    return lambda *parts: jnp.concatenate(parts, axis)


def _split(site: Site) -> Run:
    axis, sizes = site.integer("axis"), static_integers(site, 1, "split")

    def run(x: Any, *_: Any) -> Any:
        part = -(-x.shape[axis] // site.results)
        cuts = np.cumsum(sizes or [part] * site.results)[:-1]
        return tuple(jnp.split(x, cuts, axis))

    return run


def _slice(site: Site) -> Run:
    names = ("starts", "ends", "axes", "steps")
    starts, ends, axes, steps = (static_integers(site, n + 1, name) for n, name in enumerate(names))

    def run(x: Any, *_: Any) -> Any:
        where = [slice(None)] * x.ndim
        for n, (start, end) in enumerate(zip(starts or (), ends or ())):
            axis, step = n if axes is None else axes[n], 1 if steps is None else steps[n]
            before = step < 0 and end < -x.shape[axis]
            where[axis] = slice(start, None if before else end, step)
        return x[tuple(where)]

    return run


def _gather(site: Site) -> Run:
    axis = site.integer("axis")
    return lambda x, index: jnp.take(x, index, axis)


def _pad(site: Site) -> Run:
    widths, fill = border(site)
    return lambda x, *_: jnp.pad(x, widths, constant_values=fill)


def _depth_to_space(site: Site) -> Run:
    by, channels_first = site.integer("blocksize"), site.text("mode", "DCR") == "CRD"

    def run(x: Any) -> Any:
        n, c, h, w = x.shape
        if channels_first:
            x = x.reshape(n, c // by**2, by, by, h, w).transpose(0, 1, 4, 2, 5, 3)
        else:
            x = x.reshape(n, by, by, c // by**2, h, w).transpose(0, 3, 4, 1, 5, 2)
        return x.reshape(n, c // by**2, h * by, w * by)

    return run


def _resize(site: Site) -> Run:
    wanted = bilinear_sizes(site)
    return lambda x, *_: jax.image.resize(x, (*x.shape[:2], *wanted), "linear", antialias=False)


LAYOUT: Mapping[str, Callable[[Site], Run]] = {
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Expand": _expand,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "Pad": _pad,
    "DepthToSpace": _depth_to_space,
    "Resize": _resize,
}


OPERATORS: Mapping[str, Make] = {
    **{name: _always(run) for name, run in CALLS.items()},
    "Clip": _clip,
    "Gelu": _gelu,
    "Softmax": _softmax(nn.softmax),
    "LogSoftmax": _softmax(nn.log_softmax),
    "ReduceSum": _reduction(jnp.sum),
    "ReduceMean": _reduction(jnp.mean),
    "ReduceMax": _reduction(jnp.max),
    "ReduceL2": _reduction(_length),
    "Gemm": _gemm,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "Conv": _conv,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _over_pixels(jnp.mean),
    "GlobalMaxPool": _over_pixels(jnp.max),
    "LRN": _local_response,
    "LSTM": _lstm,
    **LAYOUT,
}
