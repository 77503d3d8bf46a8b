"""ONNX operators as PyTorch calls, windows and fused blocks included; layout is `torch_layout`.

Static attributes are read once, when a call is prepared. This module and those that it imports need
PyTorch, so they are imported only if it is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as np

from explorer.ops.record import Site
from explorer.tuning.peers.model_forms import static_integers
from explorer.tuning.peers.torch_layout import LAYOUT

torch: Any = import_module("torch")  # by name: its types differ from version to version
F: Any = torch.nn.functional

Run = Callable[..., Any]  # tensors in, a tensor or a tuple of them out
Make = Callable[[Site], Run]


def _always(run: Run) -> Make:
    return lambda site: run


def _variadic(run: Run) -> Make:
    return lambda site: lambda *tensors: reduce(run, tensors)


def _div(site: Site) -> Run:
    def run(a: Any, b: Any) -> Any:
        return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")

    return run


def _pow(site: Site) -> Run:
    """Raise to a power; a constant power is passed as a number, which PyTorch computes faster."""
    power = site.values[1]
    if power is None or power.ndim:
        return torch.pow  # type: ignore[no-any-return]
    number = power.item()
    return lambda x, _: torch.pow(x, number)


def _cast(site: Site) -> Run:
    dtype = getattr(torch, site.text("to", "float32"))
    return lambda x: x.to(dtype)


def _clip(site: Site) -> Run:
    low, high = site.attrs.get("min"), site.attrs.get("max")
    return lambda x, least=low, most=high: torch.clamp(x, least, most)


def _leaky_relu(site: Site) -> Run:
    alpha = site.number("alpha", 0.01)
    return lambda x: F.leaky_relu(x, alpha)


def _gelu(site: Site) -> Run:
    approximate = site.text("approximate", "none")
    return lambda x: F.gelu(x, approximate=approximate)


def _softmax(run: Run) -> Make:
    """Apply a softmax; before operator set 13 over all dims from the axis on, as one."""

    def make(site: Site) -> Run:
        axis = site.integer("axis", -1)
        if not site.integer("flatten"):
            return lambda x: run(x, axis)
        return lambda x: run(x.flatten(axis).flatten(0, axis - 1), 1).reshape(x.shape)

    return make


def _gemm(site: Site) -> Run:
    alpha, beta = site.number("alpha", 1.0), site.number("beta", 1.0)
    left, right = site.integer("transA"), site.integer("transB")
    if right and not left and alpha == beta == 1.0:
        return lambda a, b, c=None: F.linear(a, b, c)

    def run(a: Any, b: Any, c: Any = None) -> Any:
        a, b = a.t() if left else a, b.t() if right else b
        return alpha * (a @ b) if c is None else torch.addmm(c, a, b, beta=beta, alpha=alpha)

    return run


def _batch_norm(site: Site) -> Run:
    epsilon = site.number("epsilon", 1e-5)
    return lambda x, scale, bias, mean, variance: F.batch_norm(
        x, mean, variance, scale, bias, False, 0.0, epsilon
    )


def _layer_norm(site: Site) -> Run:
    axis, epsilon = site.integer("axis", -1), site.number("epsilon", 1e-5)
    return lambda x, scale, bias=None: F.layer_norm(x, x.shape[axis:], scale, bias, epsilon)


def _reduction(run: Run) -> Make:
    def make(site: Site) -> Run:
        axes, keep = static_integers(site, 1, "axes"), bool(site.integer("keepdims", 1))
        if not axes and site.integer("noop_with_empty_axes"):
            return lambda x, *_: x
        return lambda x, *_: run(x, tuple(axes or range(x.ndim)), keep)

    return make


def _cumsum(site: Site) -> Run:
    if site.integer("exclusive") or site.integer("reverse"):
        site.unsupported("is exclusive or reverse, which torch.cumsum is not")
    static_axis = site.attrs.get("axis")
    return lambda x, axis=static_axis: torch.cumsum(x, int(axis))


def _lstm(site: Site) -> Run:
    if site.text("direction", "forward") != "forward" or site.integer("layout"):
        site.unsupported("is not a forward one over steps, batch, width")
    if site.has(4) or site.has(7) or site.attrs.get("activations"):
        site.unsupported("has lengths, peepholes or other activations")

    constant_weights = [None if v is None else _gates(torch.from_numpy(v)) for v in _weights(site)]

    def run(
        x: Any, w: Any, r: Any, b: Any = None, _: Any = None, h: Any = None, c: Any = None
    ) -> Any:
        late = (w, r, *(() if b is None else b.split(4 * r.shape[2], 1)))
        weights = [_gates(v) if k is None else k for k, v in zip(constant_weights, late)]
        zero = x.new_zeros(1, x.shape[1], r.shape[2])
        state = (zero if h is None else h, zero if c is None else c)
        y, h, c = torch.lstm(x, state, weights, b is not None, 1, 0.0, False, False, False)
        return y.unsqueeze(1), h, c

    return run


def _weights(site: Site) -> list[Any]:
    """Return an LSTM's constant weights, with separate biases; None for the others."""
    w, r, b = (*site.values[1:4], None, None)[:3]
    halves = (None, None) if b is None else np.split(b, 2, 1)
    return [w, r, *halves]


def _gates(weights: Any) -> Any:
    """Reorder gates: ONNX has in, out, forget, cell; PyTorch in, forget, cell, out."""
    i, o, f, c = weights[0].chunk(4)
    return torch.cat((i, f, c, o))


# fmt: off
CALLS: Mapping[str, Run] = {  # element-wise operators, and others without attributes
    "Abs": torch.abs, "Neg": torch.neg, "Relu": torch.relu, "Sigmoid": torch.sigmoid,
    "Tanh": torch.tanh, "Sqrt": torch.sqrt, "Exp": torch.exp, "Log": torch.log, "Erf": torch.erf,
    "Cos": torch.cos, "Sin": torch.sin, "Floor": torch.floor, "Ceil": torch.ceil,
    "Round": torch.round, "Sign": torch.sign, "Reciprocal": torch.reciprocal,
    "Softplus": F.softplus, "HardSwish": F.hardswish, "IsNaN": torch.isnan,
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul,
    "Equal": torch.eq, "Less": torch.lt, "LessOrEqual": torch.le,
    "Greater": torch.gt, "GreaterOrEqual": torch.ge,
    "Not": torch.logical_not, "And": torch.logical_and, "Or": torch.logical_or,
    "Xor": torch.logical_xor, "Where": torch.where, "MatMul": torch.matmul,
    "Identity": lambda x: x, "Dropout": lambda x: (x, None),
}
# fmt: on


def _pads(site: Site, dims: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return symmetric padding, and the padding to do before, in the order of `F.pad`."""
    auto = site.text("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID"):
        site.unsupported(f"pads by the rule {auto}")
    pads = site.integers("pads", (0,) * (2 * dims)) or (0,) * (2 * dims)
    low, high = pads[:dims], pads[dims:]
    if low == high:
        return low, ()
    return (0,) * dims, tuple(n for pair in reversed(list(zip(low, high))) for n in pair)


def _window(site: Site) -> tuple[int, ...]:
    shape = site.integers("kernel_shape")
    return shape if shape is not None else site.unsupported("has no kernel_shape")


def _conv(site: Site) -> Run:
    dims = len(_window(site))
    symmetric, before = _pads(site, dims)
    ones = (1,) * dims
    stride, dilation = site.integers("strides", ones), site.integers("dilations", ones)
    groups = site.integer("group", 1)
    run: Run = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]

    def conv(x: Any, w: Any, b: Any = None) -> Any:
        x = F.pad(x, before) if before else x
        return run(x, w, b, stride, symmetric, dilation, groups)

    return conv


def _max_pool(site: Site) -> Run:
    if site.results > 1:
        site.unsupported("gives the places of its maxima too")
    window = _window(site)
    symmetric, before = _pads(site, len(window))
    ones = (1,) * len(window)
    stride, dilation = site.integers("strides", ones), site.integers("dilations", ones)
    ceil = bool(site.integer("ceil_mode"))
    run: Run = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(window) - 1]

    def pool(x: Any) -> Any:
        x = F.pad(x, before, value=-torch.inf) if before else x
        return run(x, window, stride, symmetric, dilation, ceil)

    return pool


def _average_pool(site: Site) -> Run:
    window = _window(site)
    symmetric, before = _pads(site, len(window))
    ones = (1,) * len(window)
    if site.integer("ceil_mode") or site.integers("dilations", ones) != ones:
        site.unsupported("rounds up or is dilated")
    stride = site.integers("strides", ones)
    counted = bool(site.integer("count_include_pad"))
    run: Run = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(window) - 1]

    def pool(x: Any) -> Any:
        if not before:
            return run(x, window, stride, symmetric, False, counted)
        total = run(F.pad(x, before), window, stride)
        if counted:
            return total
        return total / run(F.pad(torch.ones_like(x[:1, :1]), before), window, stride)

    return pool


def _over_pixels(run: Run) -> Callable[[Site], Run]:
    return lambda site: lambda x: run(x, tuple(range(2, x.ndim)), True)


def _local_response(site: Site) -> Run:
    size = site.integer("size")
    if size % 2 == 0:
        site.unsupported("has a window of even size, which PyTorch places otherwise")
    alpha, beta = site.number("alpha", 1e-4), site.number("beta", 0.75)
    bias = site.number("bias", 1.0)
    return lambda x: F.local_response_norm(x, size, alpha, beta, bias)


WINDOWS: Mapping[str, Callable[[Site], Run]] = {
    "Conv": _conv,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _over_pixels(torch.mean),
    "GlobalMaxPool": _over_pixels(torch.amax),
    "LRN": _local_response,
}


def _linear(site: Site) -> Run:
    return lambda x, w, b=None: F.linear(x, w.t(), b)


def _rms_norm(site: Site) -> Run:
    epsilon = site.number("epsilon", 1e-5)
    return lambda x, w: F.rms_norm(x, w.shape, w, epsilon)


def _attention(site: Site) -> Run:
    """Call PyTorch's attention, whose fast kernel takes four dims: batch, heads, rows, width."""
    scale, causal = site.number("scale", 1.0), bool(site.integer("causal"))
    run: Run = F.scaled_dot_product_attention

    def attend(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        batched = (t.unsqueeze(0) if q.ndim == 3 else t for t in (q, k, v))
        attended = run(*batched, attn_mask=mask, is_causal=causal, scale=scale)
        return attended.squeeze(0) if q.ndim == 3 else attended

    return attend


BLOCKS: Mapping[str, Callable[[Site], Run]] = {
    "torch.linear": _linear,
    "torch.silu": lambda site: F.silu,
    "torch.rsqrt": lambda site: torch.rsqrt,
    "torch.rms_norm": _rms_norm,
    "torch.attention": _attention,
}


OPERATORS: Mapping[str, Make] = {
    **{name: _always(run) for name, run in CALLS.items()},
    "Div": _div,
    "Pow": _pow,
    "Cast": _cast,
    "Clip": _clip,
    "LeakyRelu": _leaky_relu,
    "Gelu": _gelu,
    "Max": _variadic(torch.maximum),
    "Min": _variadic(torch.minimum),
    "Sum": _variadic(torch.add),
    "Mean": lambda site: lambda *tensors: reduce(torch.add, tensors) / len(tensors),
    # whole rows
    "Softmax": _softmax(torch.softmax),
    "LogSoftmax": _softmax(torch.log_softmax),
    "ReduceSum": _reduction(torch.sum),
    "ReduceMean": _reduction(torch.mean),
    "ReduceMax": _reduction(torch.amax),
    "ReduceMin": _reduction(torch.amin),
    "ReduceL2": _reduction(lambda x, axes, keep: torch.linalg.vector_norm(x, 2, axes, keep)),
    "CumSum": _cumsum,
    "Gemm": _gemm,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "LSTM": _lstm,
    **BLOCKS,
    **WINDOWS,
    **LAYOUT,
}
