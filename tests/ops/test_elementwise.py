"""Element by element: every function, its special values, its parameters, and broadcasting."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.ops.interpreter.evaluate import evaluate
from tests.ops.one_operator import Case, agree, check, proto, stages

random = np.random.default_rng(0)
F = np.float32
INF, NAN = np.inf, np.nan
X = random.standard_normal((3, 5)).astype(F) * 3
SPECIAL = np.array(
    [-INF, -3e38, -100, -1.5, -0.5, -0.0, 0.0, 1e-40, 0.5, 2.5, 100, 3e38, INF, NAN], F
)
SMALL = np.array([-INF, -20, -1.5, -1e-3, -0.0, 0.0, 1e-3, 0.5, 2.5, 30, INF, NAN], F)
POSITIVE = np.array([0.0, 1e-30, 0.1, 1, 7.5, 1e30, INF, NAN], F)

UNARY = [
    ("Relu", X),
    ("Sigmoid", SMALL),
    ("Tanh", SMALL),
    ("Erf", SMALL),
    ("Abs", SPECIAL),
    ("Neg", SPECIAL),
    ("Exp", SMALL),
    ("Log", POSITIVE),
    ("Sqrt", POSITIVE),
    ("Sin", X),
    ("Cos", X),
    ("Tan", X),
    ("Floor", SPECIAL),
    ("Ceil", SPECIAL),
    ("Round", np.append(SPECIAL, F([1.5, 2.5, -2.5]))),
    ("Reciprocal", X),
    ("Sign", X),
    ("IsNaN", SPECIAL),
    ("Softplus", SMALL[1:-2]),
    ("Softsign", X),
    ("HardSwish", X),
    ("Identity", X),
    ("Dropout", X),
    ("Mish", X),
]
WITH_ATTRIBUTES = [
    ("LeakyRelu", X, {"alpha": 0.3}),
    ("Elu", X, {"alpha": 0.7}),
    ("Selu", X, {}),
    ("Selu", X, {"alpha": 1.1, "gamma": 0.9}),
    ("Celu", X, {"alpha": 0.6}),
    ("HardSigmoid", X, {"alpha": 0.3, "beta": 0.4}),
    ("HardSigmoid", X, {}),
    ("ThresholdedRelu", X, {"alpha": 0.6}),
    ("Shrink", X, {"bias": 0.2, "lambd": 0.7}),
    ("IsInf", SPECIAL, {"detect_negative": 0}),
    ("IsInf", SPECIAL, {"detect_positive": 0}),
    ("IsInf", SPECIAL, {}),
]
INTEGERS = np.array([-7, -1, 0, 1, 5, 9], np.int64)


@pytest.mark.parametrize(("op", "x"), UNARY, ids=[u[0] for u in UNARY])
def test_a_function_of_one_argument_equals_onnxruntime(
    op: str, x: np.ndarray, tmp_path: Path
) -> None:
    check(Case(op, [x]), tmp_path)


@pytest.mark.parametrize(("op", "x", "attrs"), WITH_ATTRIBUTES)
def test_a_function_with_parameters_equals_onnxruntime(
    op: str, x: np.ndarray, attrs: dict[str, float], tmp_path: Path
) -> None:
    check(Case(op, [x], attrs, opset=20 if op == "IsInf" else 18), tmp_path)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_equals_onnxruntime(approximate: str, tmp_path: Path) -> None:
    check(Case("Gelu", [X], {"approximate": approximate}, opset=20), tmp_path)


BINARY = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Max",
    "Min",
    "Sum",
    "Mean",
    "Pow",
    "PRelu",
    "Equal",
    "Greater",
    "Less",
    "GreaterOrEqual",
    "LessOrEqual",
]


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("free", [(), (5,), (3, 5)], ids=str)
def test_two_arguments_broadcast(op: str, free: tuple[int, ...], tmp_path: Path) -> None:
    a, b = np.abs(X)[:, None, :], X[0] if op != "PRelu" else np.abs(X[0])
    check(Case(op, [a, b], free=free), tmp_path)
    if op != "PRelu":
        check(Case(op, [b[None, :], a], free=free), tmp_path)


@pytest.mark.parametrize("op", ["Add", "Div", "Max", "Min", "Pow", "Sub", "Less"])
@pytest.mark.parametrize("side", [0, 1])
def test_a_constant_of_one_element_is_a_number_in_the_kernel(
    op: str, side: int, tmp_path: Path
) -> None:
    inputs = [np.abs(X), np.abs(X)]
    inputs[side] = np.array([[1.7]], F)
    check(Case(op, inputs, known=(side,)), tmp_path)


@pytest.mark.parametrize("exponent", [-2.0, -1.0, -0.5, 0.0, 0.5, 0.75, 1.0, 2.0, 3.0, 2.5])
def test_powers_of_a_known_exponent(exponent: float, tmp_path: Path) -> None:
    check(Case("Pow", [np.abs(X), np.array(exponent, F)], known=(1,)), tmp_path)
    check(Case("Pow", [np.abs(X), np.array([exponent], F)]), tmp_path)


def test_the_exponent_may_have_another_dtype(tmp_path: Path) -> None:
    check(Case("Pow", [X, np.array([[2], [3], [0]], np.int64)]), tmp_path)
    check(Case("Pow", [np.array([2, 3]), np.array([3, 2])]), tmp_path)


@pytest.mark.parametrize(
    "op", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", "Greater", "Equal"]
)
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_integers(op: str, dtype: type, tmp_path: Path) -> None:
    a = INTEGERS.astype(dtype)
    check(Case(op, [a[:, None], np.array([-3, -1, 2, 4], dtype)]), tmp_path)


def test_modulo_of_floats_keeps_the_sign_of_the_dividend(tmp_path: Path) -> None:
    check(Case("Mod", [X, np.array([-1.5, 0.7, 2, -3, 1], F)], {"fmod": 1}), tmp_path)


@pytest.mark.parametrize("op", ["And", "Or", "Xor"])
def test_logic_broadcasts(op: str, tmp_path: Path) -> None:
    a, b = np.array([[True], [False]]), np.array([True, False, True])
    check(Case(op, [a, b]), tmp_path)


def test_not(tmp_path: Path) -> None:
    check(Case("Not", [np.array([True, False])]), tmp_path)


def test_special_values_pass_through_comparisons_and_extremes(tmp_path: Path) -> None:
    for op in ("Max", "Min", "Equal", "Less", "GreaterOrEqual", "Add", "Mul"):
        check(Case(op, [SMALL[:, None], SMALL[None, :]]), tmp_path)


@pytest.mark.parametrize("free", [(), (3,)], ids=str)
def test_where_chooses_by_a_broadcast_condition(free: tuple[int, ...], tmp_path: Path) -> None:
    condition = random.random((3, 1)) < 0.5
    check(Case("Where", [condition, X, np.array(2, F)], free=free), tmp_path)
    check(Case("Where", [condition, INTEGERS[:3, None], INTEGERS], known=(2,)), tmp_path)


def test_clip_takes_its_limits_as_arguments_or_attributes(tmp_path: Path) -> None:
    low, high = np.array(-1, F), np.array(0.5, F)
    check(Case("Clip", [X, low, high], known=(1, 2)), tmp_path)
    check(Case("Clip", [X, None, high]), tmp_path)
    check(Case("Clip", [X, low]), tmp_path)
    check(Case("Clip", [X], {"min": -1.0, "max": 0.5}, opset=9), tmp_path)
    check(Case("Clip", [X], {"max": 0.5}, opset=9), tmp_path)


CASTS = [
    (np.float32, np.int64),
    (np.float32, bool),
    (np.int64, np.float32),
    (bool, np.float32),
    (np.int64, np.int32),
    (np.float32, np.float64),
    (np.float32, np.float16),
    (np.int32, bool),
    (np.float32, np.float32),
]


@pytest.mark.parametrize(("before", "after"), CASTS)
def test_casts(before: type, after: type, tmp_path: Path) -> None:
    import onnx

    x = (X * 2).astype(before)
    to = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(after))
    check(Case("Cast", [x], {"to": to}), tmp_path)


def test_several_arguments_are_taken_from_the_left(tmp_path: Path) -> None:
    for op in ("Sum", "Max", "Min", "Mean"):
        check(Case(op, [X, X[0], X[:, :1], X * 2]), tmp_path)
        check(Case(op, [X]), tmp_path)


@given(st.lists(st.sampled_from([1, 2, 3]), min_size=0, max_size=4), st.data())
def test_any_two_shapes_that_numpy_broadcasts(shape: list[int], data: st.DataObject) -> None:
    from explorer.ops.record import Site
    from explorer.ops.shape_rules import broadcast

    other = [n if data.draw(st.booleans()) else 1 for n in shape][
        data.draw(st.integers(0, len(shape))) :
    ]
    site = Site("Add", "here", (), {})
    assert broadcast(site, [tuple(shape), tuple(other)]) == np.broadcast_shapes(
        tuple(shape), tuple(other)
    )


def test_the_comparison_of_two_answers_finds_a_wrong_one() -> None:
    with pytest.raises(AssertionError):
        agree(np.ones(3, F), np.array([1, 1, 1.1], F), 1e-3, "here")


def test_numbers_of_float64_come_from_attributes_of_float32(tmp_path: Path) -> None:
    """0.01 is 0.009999999776 to ONNX: defaults, and the numbers of its functions' bodies."""
    x = np.linspace(-9, 9, 40)
    cases = [Case(op, [x], opset=18) for op in ("LeakyRelu", "HardSigmoid", "HardSwish")]
    cases.append(Case("Gelu", [x], {"approximate": "tanh"}, opset=20))
    for case in cases:
        check(replace(case, tolerance=1e-15), tmp_path)


@pytest.mark.parametrize("op", ["Softplus", "Mish"])
def test_softplus_is_exact_where_it_is_small(tmp_path: Path, op: str) -> None:
    x = np.linspace(-16, 4, 50, dtype=np.float32)
    path = tmp_path / "case.onnx"
    onnx.save(proto(Case(op, [x])), path)
    right = np.log1p(np.exp(x.astype(np.float64)))
    right = right if op == "Softplus" else x * np.tanh(right)
    for program in stages(path):
        (found,) = evaluate(program, {"x0": x}).values()
        np.testing.assert_allclose(found, right, rtol=1e-6)


def test_the_softplus_of_a_recurrent_layer_is_exact_where_it_is_small() -> None:
    from explorer.ops.recurrent_cells import Activation, of_arrays

    x = np.linspace(-40, 4, 50, dtype=np.float32)
    with np.errstate(all="raise", under="ignore"):
        result = Activation("softplus", 0.0, 0.0)(of_arrays("float32"), x)
    np.testing.assert_allclose(result, np.log1p(np.exp(x.astype(np.float64))), rtol=1e-6)
