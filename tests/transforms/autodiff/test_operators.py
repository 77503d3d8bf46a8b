"""Gradients of operators, by loops: every way in which an element of an argument is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
import explorer.np as enp
from explorer.frontends.python.tracing.emit import emit, traced
from explorer.frontends.python.tracing.frames import attributed_to_call, is_tracing
from explorer.ops import RECORDS
from tests.examples import examples
from tests.transforms.autodiff.finite import check, differences

DRAW = np.random.default_rng(11)


def some(*shape: int) -> np.ndarray:
    return DRAW.normal(size=shape)


def onnx(op: str, **attrs: Any) -> Callable[..., Any]:
    """An ONNX operator; on arrays its reference."""

    def run(*args: Any) -> Any:
        if not is_tracing():
            return RECORDS[op].reference(attrs, list(args))
        with attributed_to_call(op):
            return emit(op, *map(traced, args), **attrs)

    return run


def positive(*shape: int) -> np.ndarray:
    return np.abs(some(*shape)) + 0.5


ZEROS = np.array([[1.0, 2, 3], [0, 2, 3], [0, 0, 3], [0, 0, 0]])
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "add, broadcast": (lambda a, b: a + b, (some(3, 4), some(4))),
    "multiply, an outer product": (lambda a, b: a * b, (some(3, 1), some(1, 4))),
    "a square": (lambda a: a * a, (some(3),)),
    "divide": (lambda a, b: a / b, (some(3, 4), positive(3, 4))),
    "power": (lambda a, b: a**b, (positive(3), some(3))),
    "mod": (lambda a: enp.mod(a, 0.7), (some(5),)),
    "exp and log": (lambda a: enp.log(enp.exp(a) + 1), (some(5),)),
    "maximum": (enp.maximum, (some(5), some(5))),
    "clip": (lambda a: enp.clip(a, -0.5, 0.5), (some(7),)),
    "where": (lambda a, b: enp.where(a > 0, a, b), (some(5), some(5))),
    "the largest": (lambda a: a.max(axis=1), (some(3, 5),)),
    "the least of all": (lambda a: a.min(), (some(3, 5),)),
    "a product with zeros": (lambda a: a.prod(axis=1), (ZEROS,)),
    "variance": (lambda a: a.var(axis=-1), (some(3, 5),)),
    "less its sum": (lambda a: a - a.sum(axis=0, keepdims=True), (some(3, 4),)),
    "matmul, broadcast": (enp.matmul, (some(2, 3, 4), some(4, 5))),
    "matmul, batched": (enp.matmul, (some(2, 3, 4), some(2, 4, 5))),
    "matmul, a vector": (enp.matmul, (some(3, 4), some(4))),
    "einsum": (lambda a, b: enp.einsum("bij,bjk->ik", a, b), (some(2, 3, 4), some(2, 4, 2))),
    "a trace": (lambda a: enp.einsum("ii->i", a), (some(4, 4),)),
    "transpose": (lambda a: enp.transpose(a, (1, 0, 2)), (some(2, 3, 4),)),
    "reshape": (lambda a: a.reshape(6, 2), (some(3, 4),)),
    "a slice with steps": (lambda a: a[1:, ::2], (some(4, 5),)),
    "a slice backwards": (lambda a: a[::-1, 1], (some(4, 5),)),
    "steps backwards": (lambda a: a[3::-2, ::-3], (some(5, 7),)),
    "steps of three": (lambda a: a[2::3], (some(10),)),
    "concatenate": (lambda a, b: enp.concatenate([a, b], axis=1), (some(2, 3), some(2, 2))),
    "tile": (lambda a: enp.tile(a, (2, 3)), (some(2, 3),)),
    "pad": (lambda a: enp.pad(a, ((1, 2), (0, 1))), (some(3, 4),)),
    "rows by number": (lambda a, i: a[i], (some(5, 3), np.array([1, 0, 1, -1]))),
    "an element of each row": (
        lambda a, i: enp.take_along_axis(a, i, axis=1),
        (some(3, 4), np.array([[0, 1], [2, 2], [3, 0]])),
    ),
    "a running sum": (lambda a: enp.cumsum(a, axis=1), (some(3, 4),)),
    "softmax": (lambda a: enp.softmax(a, axis=1), (some(3, 4),)),
    "its logarithm": (lambda a: enp.log_softmax(a, axis=0), (some(3, 4),)),
    "layer norm": (enp.layer_norm, (some(3, 4), some(4), some(4))),
    "rms norm": (enp.rms_norm, (some(3, 4), some(4))),
    "gelu": (enp.gelu, (some(5),)),
    "the logarithm of a sum": (lambda a: enp.logsumexp(a, axis=1), (some(3, 4),)),
    "it of all": (lambda a: enp.logsumexp(a, keepdims=True), (some(3, 4),)),
    "a norm": (onnx("ReduceL2", axes=(0,), keepdims=0), (some(3, 4),)),
    "mish": (onnx("Mish"), (some(5) * 3,)),
    "hard swish": (onnx("HardSwish"), (some(9) * 3,)),
    "limits": (enp.clip, (some(3, 4), np.array(-0.3), np.array(0.4))),
    "a limit of each row": (onnx("Clip"), (some(3, 4), positive(3, 1) - 1)),
    "nothing": (lambda a: a * 2, (some(0, 3),)),
    "one element": (lambda a: a[0] * a[0], (some(1),)),
}
SMOOTH = (
    *("tanh", "sigmoid", "sin", "cos", "tan", "arctan", "sinh", "cosh", "arcsinh", "erf", "exp"),
    *("expm1", "softplus", "silu", "square", "abs", "relu", "floor", "exp2"),
)
FROM_NOTHING = ("log", "log1p", "log2", "log10", "sqrt", "reciprocal")


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_what_central_differences_say(name: str) -> None:
    f, args = CASES[name]
    check(f, *args)


@pytest.mark.parametrize("name", SMOOTH)
def test_so_is_that_of_a_function(name: str) -> None:
    check(getattr(enp, name), some(7), compiled=name in ("tanh", "erf", "relu"))


@pytest.mark.parametrize("name", FROM_NOTHING)
def test_so_is_that_of_a_function_of_positive_numbers(name: str) -> None:
    check(getattr(enp, name), positive(7), compiled=False)


@pytest.mark.exhaustive
@settings(max_examples=examples(25, few=3), deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(0, 3),
    st.integers(1, 2),
    st.integers(1, 2),
    st.integers(0, 2**32),
)
def test_windows_of_any_stride_padding_and_dilation(
    stride: int, window: int, padding: int, dilation: int, groups: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    extent = dilation * (window - 1) + 1 + stride * int(draw.integers(0, 3))
    x = draw.normal(size=(2, 2, extent, 3 + dilation * window))
    w = draw.normal(size=(2, 2 // groups, window, 2))

    def f(x: Any, w: Any) -> Any:
        strides, dilations = (stride, 1), (dilation, 1)
        pads = (padding, 1)
        return enp.conv(x, w, strides=strides, padding=pads, dilations=dilations, groups=groups)

    check(f, x, w, compiled=False)


@pytest.mark.exhaustive
@settings(max_examples=examples(25, few=3), deadline=None)
@given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(0, 2),
    st.integers(1, 6),
    st.integers(0, 2**32),
)
def test_transposed_windows_of_any_stride_padding_and_dilation(
    stride: int, window: int, padding: int, dilation: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    padding = min(padding, dilation * (window - 1) // 2)
    x, w = draw.normal(size=(1, 2, 4)), draw.normal(size=(2, 1, window))
    shape = {"strides": (stride,), "pads": (padding, padding), "dilations": (dilation,)}
    check(onnx("ConvTranspose", kernel_shape=(window,), **shape), x, w, compiled=False)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("stride", "window", "padding"), [(1, 3, 1), (2, 3, 1), (3, 2, 0), (4, 4, 0)]
)
def test_windows_compiled(stride: int, window: int, padding: int) -> None:
    def f(x: Any, w: Any) -> Any:
        return enp.conv(x, w, strides=stride, padding=padding)

    check(f, some(1, 2, 8, 8), some(3, 2, window, window))


def test_ties_share_as_in_pytorch() -> None:
    x = np.array([1.0, 3.0, 3.0, 2.0])
    np.testing.assert_array_equal(explorer.grad(lambda x: x.max())(x), [0, 0.5, 0.5, 0])
    y = np.array([1.0, 3.0, 2.0, 2.0])
    gx, gy = explorer.grad(lambda x, y: enp.maximum(x, y).sum(), argnums=(0, 1))(x, y)
    np.testing.assert_array_equal(gx, [0.5, 0.5, 1, 0.5])
    np.testing.assert_array_equal(gy, [0.5, 0.5, 0, 0.5])


BORDERS: dict[str, tuple[Callable[..., Any], list[float], list[float]]] = {
    "relu": (enp.relu, [-1, 0, 2], [0, 0, 1]),
    "clip": (lambda x: enp.clip(x, -1.0, 2.0), [-2, -1, 0, 2, 3], [0, 1, 1, 1, 0]),
    "one limit": (lambda x: enp.clip(x, max=2.0), [0, 2, 3], [1, 1, 0]),
    "LeakyRelu": (onnx("LeakyRelu", alpha=0.25), [-1, 0, 1], [0.25, 0.25, 1]),
    "PRelu": (lambda x: onnx("PRelu")(x, np.full(1, 0.25)), [-1, 0, 1], [0.25, 0.25, 1]),
    "Elu": (onnx("Elu", alpha=0.5), [-1000, 0, 1000], [0, 0.5, 1]),
    "Celu": (onnx("Celu"), [-1000, 0, 1000], [0, 1, 1]),
    "HardSigmoid": (onnx("HardSigmoid", alpha=0.5), [-1, 0, 1], [0, 0.5, 0]),
    "HardSwish": (onnx("HardSwish"), [-3, 0, 3], [0, 0.5, 1]),
    "Softplus": (enp.softplus, [-1000, 0, 50, 1000], [0, 0.5, 1, 1]),
    "Mish": (onnx("Mish"), [-1000, 0, 1000], [0, 0.6, 1]),
    "expm1": (enp.expm1, [-1000, 0, 1e-20, 1000], [0, 1, 1, np.inf]),
    "log1p": (enp.log1p, [-1, 0, 1e-20], [np.inf, 1, 1]),
    "fmod": (lambda x: enp.fmod(x, 0.75), [-1, 0, 1], [1, 1, 1]),
    "std": (enp.std, [2, 2], [0, 0]),
    "a norm": (onnx("ReduceL2", keepdims=0), [0, 0], [0, 0]),
    "0 to the power": (lambda x: enp.power(0.0, x), [1, 0, -1], [0, 0, -np.inf]),
}


@pytest.mark.parametrize("name", BORDERS)
def test_borders_and_what_overflows_are_as_in_pytorch(name: str) -> None:
    f, x, slopes = BORDERS[name]
    found = explorer.grad(lambda x: f(x).sum())(np.array(x, float))
    np.testing.assert_allclose(found, slopes, atol=1e-7)


def test_a_row_that_is_masked_as_a_whole_has_no_gradient() -> None:
    mask = np.array([[True, True], [False, False]])

    def f(x: Any) -> Any:
        share = enp.softmax(enp.where(mask, x, -np.inf))
        return (enp.where(enp.isnan(share), 0.0, share) * np.array([[1.0, 2.0], [3.0, 4.0]])).sum()

    x = np.array([[1.0, 3.0], [2.0, 5.0]])
    share = 1 / (1 + np.exp(2.0))
    slope = share * (1 - share)
    np.testing.assert_allclose(explorer.grad(f)(x), [[-slope, slope], [0, 0]], atol=1e-12)


def test_no_gradient_goes_through_what_stops_it() -> None:
    def f(x: Any) -> Any:
        return (x * enp.stop_gradient(x * x)).sum()

    x = np.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(explorer.grad(f)(x), x * x)
    model = explorer.trace(lambda x: explorer.grad(f)(x))(explorer.tensor("float64", 3))
    (found,) = explorer.compile(model, check=True).run(x).values()
    np.testing.assert_allclose(found, x * x)


RULES = {
    "clip": lambda x, a: enp.clip(x, a, a + 1.0),
    "logsumexp": lambda x, a: enp.logsumexp(x, axis=0) * a,
    "a norm": lambda x, a: onnx("ReduceL2", axes=(1,), keepdims=0)(x) * a,
    "mish": lambda x, a: onnx("Mish")(x) * a,
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", RULES)
def test_rules_of_operators_keep_symbols_and_can_be_differentiated(name: str) -> None:
    """The gradient's gradient too: what a rule writes is differentiated like all else."""

    def slope(x: Any, a: Any) -> Any:
        gx, ga = explorer.grad(lambda x, a: (RULES[name](x, a) ** 2).sum(), argnums=(0, 1))(x, a)
        return (gx * gx).sum() + ga * ga

    x, a = some(3, 4), np.array(0.2)
    second = explorer.grad(slope, argnums=(0, 1))
    np.testing.assert_allclose(second(x, a)[0], differences(slope, [x, a], 0), atol=1e-4)
    declared = {"x": explorer.tensor("float64", "n", 4), "a": explorer.tensor("float64")}
    c = explorer.compile(explorer.trace(second)(**declared), check=True)
    for found, wanted in zip(c.run(x, a).values(), second(x, a), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_no_slope_is_infinite_in_a_pool_of_zeros() -> None:
    pool = onnx("LpPool", kernel_shape=(2,), strides=(2,))
    found = explorer.grad(lambda x: pool(x).sum())(np.array([[[0.0, 0, 3, 4]]]))
    np.testing.assert_allclose(found, [[[0, 0, 0.6, 0.8]]])


def test_a_side_of_where_that_is_not_taken_hands_back_no_nan() -> None:
    """Of the side itself: sqrt has no slope at 0, but the other side is taken there."""
    x = np.array([0.0, 4.0])
    safe = explorer.grad(lambda x: enp.where(x > 0, enp.sqrt(enp.where(x > 0, x, 1.0)), x).sum())
    np.testing.assert_allclose(safe(x), [1.0, 0.25])
