"""ONNX operators as PyTorch calls.

Static attributes are read once, when a call is prepared. This module and those that it imports need
PyTorch, so they are imported only if it is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as np

from explorer.ops.site import Site
from explorer.tuning.peers.torch.blocks import BLOCKS
from explorer.tuning.peers.torch.layout import LAYOUT
from explorer.tuning.peers.torch.windows import WINDOWS

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
        axes, keep = constant_integers(site, 1, "axes"), bool(site.integer("keepdims", 1))
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


def constant_integers(site: Site, position: int, name: str) -> tuple[int, ...] | None:
    """Return integers from an attribute or a constant argument, None if neither is given."""
    integers = site.integers(name)
    if integers is not None or not site.has(position):
        return integers
    value = site.values[position]
    if value is None:
        site.unsupported(f"needs its {name} before the run")
    return tuple(int(n) for n in np.ravel(value))


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
