"""Every element type: operators on it, conversions, and quantised tensors, at every stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.ir.dtypes import EIGHT_BIT_FLOATS, NARROW_FLOATS, numpy_dtype
from explorer.ir.text.program_text import parse_program, print_program
from explorer.ops.casting import convert
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from tests.ops.one_operator import Case, oracle, proto, stages

random = np.random.default_rng(5)
F = np.float32
X = random.standard_normal((3, 5)).astype(F)
FINITE = [0, -0.0, 0.4, -0.6, 1, 1.5, 2.5, -7.6, 100, 239, 250, 447, 470, 6e4, -7e4, 1e20, -1e-9]
VALUES = np.array([*FINITE, 3e-5, np.inf, -np.inf, np.nan], F)
SIZES = [0, 1, 17]
KNOWN = {"CumSum": (1,), "TopK": (1,)}  # what is a constant of the model


def run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], folder: Path) -> list[Any]:
    """What each stage answers, and what the machine code does."""
    path = folder / "case.onnx"
    onnx.save(model, path)
    programs = stages(path)
    for program in programs:
        verify(program)
        assert parse_program(print_program(program), program.constants) == program
    answers = [list(evaluate(p, feeds).values()) for p in programs]
    compiled = explorer.compile(explorer.load(path))
    assert not compiled.program.library_calls
    return [*answers, list(compiled.run(feeds).values())]


def model_of(op: str, arrays: Sequence[Any], opset: int = 24, **attrs: Any) -> onnx.ModelProto:
    outputs = 2 if op == "TopK" else 1
    return proto(Case(op, arrays, attrs, KNOWN.get(op, ()), opset=opset, outputs=outputs))


def check(
    model: onnx.ModelProto, arrays: Sequence[Any], right: Sequence[Any], folder: Path
) -> None:
    """Equal dtypes, shapes and bits at every stage; a NaN is any NaN."""
    feeds = {f"x{i}": np.asarray(a) for i, a in enumerate(arrays) if a is not None}
    for stage, answers in enumerate(run(model, feeds, folder)):
        for found, wanted in zip(answers, right, strict=True):
            assert found.dtype == wanted.dtype and found.shape == wanted.shape, stage
            a, b = (np.asarray(v).astype(np.float64) for v in (found, wanted))
            np.testing.assert_array_equal(a, b, str(stage))


# Cast.


@pytest.mark.few(11)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("target", sorted(EIGHT_BIT_FLOATS))
def test_a_cast_to_eight_bits_saturates_where_it_is_told(
    target: str, size: int, tmp_path: Path
) -> None:
    x, dtype = np.resize(VALUES, size), numpy_dtype(target)
    to = helper.np_dtype_to_tensor_dtype(dtype)
    saturated = numpy_helper.saturate_cast(x, dtype)
    check(model_of("Cast", [x], to=to), [x], [saturated], tmp_path)
    with np.errstate(all="ignore"):
        plain = x.astype(dtype)
    check(model_of("Cast", [x], to=to, saturate=0), [x], [plain], tmp_path)


@pytest.mark.few(8)
@pytest.mark.parametrize("source", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_a_cast_to_a_scale_rounds_to_powers_of_two(
    saturate: int, mode: str, source: Any, tmp_path: Path
) -> None:
    x = np.append(np.abs(VALUES), F([2.0**-127, 1.5 * 2.0**-127, 3e38, 3.4e38, 0.75, 3, 6]))
    with np.errstate(all="ignore"):
        x = x.astype(source)
    right = numpy_helper.to_float8e8m0(x.astype(F), bool(saturate), mode)
    model = model_of("Cast", [x], to=TensorProto.FLOAT8E8M0, saturate=saturate, round_mode=mode)
    check(model, [x], [right], tmp_path)


@pytest.mark.few(12)
@pytest.mark.parametrize("target", ["int4", "uint4", "int2", "uint2", "int8", "uint8", "bool"])
@pytest.mark.parametrize("source", ["float32", "float16", "bfloat16", "float8_e5m2", "float64"])
def test_a_cast_of_floats_to_whole_numbers_cuts(source: str, target: str, tmp_path: Path) -> None:
    x = F([0, 0.5, 1, 1.9, -0.3, 0.99, 1.5]).astype(numpy_dtype(source))
    right = np.trunc(x.astype(F)) if target != "bool" else x.astype(F) != 0
    to = helper.np_dtype_to_tensor_dtype(numpy_dtype(target))
    check(model_of("Cast", [x], to=to), [x], [right.astype(numpy_dtype(target))], tmp_path)


def test_cast_like_takes_the_dtype_of_its_second_argument(tmp_path: Path) -> None:
    like = np.zeros(2, ml_dtypes.float8_e4m3fn)
    right = numpy_helper.saturate_cast(VALUES, like.dtype)
    check(model_of("CastLike", [VALUES, like]), [VALUES, like], [right], tmp_path)


@pytest.mark.parametrize(
    ("source", "target"),
    [("float32", "int32"), ("int64", "float64"), ("bool", "uint8"), ("uint16", "int16")],
)
def test_a_bit_cast_keeps_the_bytes(source: str, target: str, tmp_path: Path) -> None:
    x = np.array([0, 1, 1, 0, 1], source)
    to = helper.np_dtype_to_tensor_dtype(np.dtype(target))
    check(model_of("BitCast", [x], 26, to=to), [x], [x.view(target)], tmp_path)


def test_strings_are_cast_by_the_library(tmp_path: Path) -> None:
    x = F([1.5, np.nan, -np.inf])
    onnx.save(model_of("Cast", [x], to=TensorProto.STRING), tmp_path / "to.onnx")
    found = explorer.compile(explorer.load(tmp_path / "to.onnx")).run({"x0": x})["y0"]
    assert found.dtype == object and list(found) == ["1.5", "nan", "-inf"]
    texts = np.array(["2.5", "NaN", "-INF"], object)
    onnx.save(model_of("Cast", [texts], to=TensorProto.FLOAT), tmp_path / "from.onnx")
    found = explorer.compile(explorer.load(tmp_path / "from.onnx")).run({"x0": texts})["y0"]
    np.testing.assert_array_equal(found, F([2.5, np.nan, -np.inf]))
    np.testing.assert_array_equal(convert(texts, "float32"), F([2.5, np.nan, -np.inf]))


# Operators on narrow floats: in float32, rounded once.

COMBINED = ("none", "add", "mul", "max", "min")
ROWS = np.array([[2, 0, 1, 1, 0], [1, 2, 0, 1, 2]])

OPERATORS: list[tuple[str, list[np.ndarray], dict[str, Any]]] = [
    ("Exp", [X], {}),
    ("Relu", [X], {}),
    ("Gelu", [X], {}),
    ("Celu", [X], {"alpha": 0.7}),
    ("HardSwish", [X], {}),
    ("Reciprocal", [X], {}),
    ("Add", [X, X[0]], {}),
    ("Div", [X, X[:, :1]], {}),
    ("Pow", [np.abs(X), np.array(1.5, F)], {}),
    ("Max", [X, X[0]], {}),
    ("Less", [X, X[0]], {}),
    ("Where", [X > 0, X, X[0]], {}),
    ("IsNaN", [VALUES], {}),
    ("Sign", [VALUES], {}),
    ("Softmax", [X], {}),
    ("MatMul", [X, X.T.copy()], {}),
    ("MatMul", [X[:1], X[:0].T.copy()], {}),
    ("Gemm", [X, X.T.copy()], {"alpha": 0.3}),
    ("ReduceMean", [X], {}),
    ("ReduceMax", [X], {"keepdims": 0}),
    ("LayerNormalization", [X, X[0]], {}),
    ("Conv", [random.standard_normal((1, 3, 7, 5)).astype(F), X[None, :, :3, None]], {}),
    ("MaxPool", [random.standard_normal((1, 3, 7, 5)).astype(F)], {"kernel_shape": [2, 2]}),
    (
        "GridSample",
        [random.standard_normal((1, 3, 7, 5)).astype(F), X[None, :, :4].reshape(1, 3, 2, 2)],
        {},
    ),
    ("Transpose", [X], {}),
    ("Concat", [X, X], {"axis": 1}),
    ("Gather", [X, np.array([2, 0])], {}),
    ("ArgMax", [X], {}),
    ("CumSum", [X, np.array(1)], {}),
    ("TopK", [X, np.array([2])], {}),
    ("TopK", [VALUES, np.array([9])], {"largest": 0}),
    *(("ScatterElements", [X, ROWS, X[:2] * 2], {"reduction": how}) for how in COMBINED),
    *(("ScatterND", [X, ROWS[:1, :2], X[:1, 0]], {"reduction": how}) for how in COMBINED),
]


def in_dtype(arrays: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        return [a.astype(numpy_dtype(dtype)) if a.dtype == F else a for a in arrays]


@pytest.mark.few(10)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("at", range(len(OPERATORS)), ids=[o[0] for o in OPERATORS])
def test_operators_on_narrow_floats_round_once(at: int, dtype: str, tmp_path: Path) -> None:
    op, arrays, attrs = OPERATORS[at]
    arrays = in_dtype(arrays, dtype)
    wide = [a.astype(F) if str(a.dtype) in NARROW_FLOATS else a for a in arrays]
    names = [f"x{i}" for i in range(len(arrays) - len(KNOWN.get(op, ())))]
    right = oracle(model_of(op, wide, 20, **attrs), dict(zip(names, wide)))[0]
    feeds = dict(zip(names, arrays))
    for answers in run(model_of(op, arrays, 22, **attrs), feeds, tmp_path):
        kind = numpy_dtype(dtype) if right.dtype == F else right.dtype
        assert answers[0].dtype == kind and answers[0].shape == right.shape
        gap = {"float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
        found, wanted = answers[0].astype(np.float64), right.astype(np.float64)
        np.testing.assert_allclose(found, wanted, gap, 1e-6, equal_nan=True)


def test_half_overflows_where_it_is_stored_and_not_before(tmp_path: Path) -> None:
    x = np.full((1, 5), 200, np.float16)
    right = np.array([[np.inf]], np.float16)
    check(model_of("ReduceSumSquare", [x], 18), [x], [right], tmp_path)
    mean = np.array([[200]], np.float16)
    many = np.full((1, 1000), 200, np.float16)
    check(model_of("ReduceMean", [many], 18), [many], [mean], tmp_path)


# Whole numbers.


@pytest.mark.few(16)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Min", "Max", "Mod"])
def test_arithmetic_on_whole_numbers_of_every_width(op: str, dtype: str, tmp_path: Path) -> None:
    info = np.iinfo(dtype)
    a = np.array([info.min, info.max, 3, 7, info.max, 0], dtype)
    b = np.array([5, info.max, 2, 3, 7, 1], dtype)
    model = model_of(op, [a, b], 18)
    exact = {"Mod": np.mod, "Min": np.minimum, "Max": np.maximum}
    right = [exact[op](a, b)] if op in exact else oracle(model, {"x0": a, "x1": b})
    check(model, [a, b], right, tmp_path)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint16"])
@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_have_the_sign_that_is_asked_for(dtype: str, fmod: int, tmp_path: Path) -> None:
    a, b = np.array([7, -7, 7, -7, 6], np.int32), np.array([3, 3, -3, -3, 2], np.int32)
    a, b = (abs(a), abs(b)) if dtype == "uint16" else (a, b)
    a, b = a.astype(dtype), b.astype(dtype)
    right = (np.fmod if fmod else np.mod)(a, b)
    check(model_of("Mod", [a, b], 18, fmod=fmod), [a, b], [right], tmp_path)


def test_powers_of_whole_numbers_by_fractions_are_cut(tmp_path: Path) -> None:
    x, y = np.array([4, 9, 10, 2], np.int32), F([0.5, 0.5, 0.5, 3])
    check(model_of("Pow", [x, y], 18), [x, y], [np.array([2, 3, 3, 8], np.int32)], tmp_path)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_shifts(dtype: str, direction: str, tmp_path: Path) -> None:
    a, b = np.array([16, 4, 255, 1], dtype), np.array([1, 2, 3, 7], dtype)
    right = (np.left_shift if direction == "LEFT" else np.right_shift)(a, b)
    check(model_of("BitShift", [a, b], 18, direction=direction), [a, b], [right], tmp_path)


@pytest.mark.parametrize("op", ["And", "Or", "Xor"])
def test_bits_of_whole_numbers(op: str, tmp_path: Path) -> None:
    a, b = random.integers(-100, 100, (3, 5), np.int32), random.integers(-9, 9, 5, np.int32)
    function = {"And": np.bitwise_and, "Or": np.bitwise_or, "Xor": np.bitwise_xor}[op]
    check(model_of(f"Bitwise{op}", [a, b], 18), [a, b], [function(a, b)], tmp_path)
    check(model_of("BitwiseNot", [a], 18), [a], [~a], tmp_path)


# Quantised tensors.

IMAGE = (random.standard_normal((2, 3, 5)) * 40).astype(F)


@pytest.mark.few(5)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("form", ["tensor", "axis", "block"])
def test_quantising_and_back(form: str, dtype: str, tmp_path: Path) -> None:
    scale, zero, attrs = grain(form, dtype)
    model = model_of("QuantizeLinear", [IMAGE, scale, zero], 21, **attrs)
    feeds = {"x0": IMAGE, "x1": scale, "x2": zero}
    (codes,) = oracle(model, feeds)
    check(model, [IMAGE, scale, zero], [codes], tmp_path)
    back = model_of("DequantizeLinear", [codes, scale, zero], 21, **attrs)
    right = oracle(back, {"x0": codes, "x1": scale, "x2": zero})
    check(back, [codes, scale, zero], right, tmp_path)


def grain(form: str, dtype: str) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    shape, attrs = {
        "tensor": ((), {}),
        "axis": ((3,), {"axis": 1}),
        "block": ((2, 2, 5), {"axis": 1, "block_size": 2}),
    }[form]
    scale = np.asarray(random.uniform(0.2, 2, shape)).astype(F)
    zero = np.asarray(random.integers(0, 9, shape)).astype(dtype)
    return scale, zero, attrs


@pytest.mark.few(3)
@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_quantising_to_less_than_a_byte(dtype: str, tmp_path: Path) -> None:
    info = ml_dtypes.iinfo(numpy_dtype(dtype))
    zero = np.zeros((), np.int8).astype(numpy_dtype(dtype))
    x = F([-9, -8, -2, -1.5, -0.5, 0.5, 1.5, 2.5, 3, 7, 8, 15.2, 16, 99])
    right = np.clip(np.rint(x), info.min, info.max).astype(numpy_dtype(dtype))
    check(model_of("QuantizeLinear", [x, F(1), zero], 25), [x, F(1), zero], [right], tmp_path)
    wanted = right.astype(F) * F(0.5)
    check(
        model_of("DequantizeLinear", [right, F(0.5), zero], 25),
        [right, F(0.5), zero],
        [wanted],
        tmp_path,
    )


@pytest.mark.parametrize("spread", [(-1, 3), (2, 5), (-7, -1)])
@pytest.mark.parametrize("size", [1, 13])
def test_a_scale_found_in_the_tensor(size: int, spread: tuple[int, int], tmp_path: Path) -> None:
    x = random.uniform(*spread, size).astype(F)
    node = helper.make_node("DynamicQuantizeLinear", ["x0"], ["y", "scale", "zero"])
    given = helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["n"])
    results = [onnx.ValueInfoProto(name=n) for n in ("y", "scale", "zero")]
    graph = helper.make_graph([node], "case", [given], results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    check(model, [x], oracle(model, {"x0": x}), tmp_path)


def codes(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (3, 7, 5), (2, 300, 17), (0, 3, 2)])
def test_products_of_bytes_are_exact(m: int, k: int, n: int, tmp_path: Path) -> None:
    a, b = codes((m, k), np.uint8), codes((k, n), np.int8)
    zero, zeros = np.uint8(7), codes((n,), np.int8)
    right = (a.astype(np.int32) - 7) @ (b.astype(np.int32) - zeros)
    arrays = [a, b, zero, zeros]
    check(model_of("MatMulInteger", arrays, 18), arrays, [right], tmp_path)


def test_convolutions_of_bytes_pad_with_the_zero_point(tmp_path: Path) -> None:
    x, w, zero = codes((1, 2, 5, 5), np.uint8), codes((3, 2, 3, 3), np.uint8), np.array(9, np.uint8)
    model = model_of("ConvInteger", [x, w, zero], 18, pads=[1, 1, 1, 1])
    right = oracle(model, {"x0": x, "x1": w, "x2": zero})
    check(model, [x, w, zero], right, tmp_path)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_quantised_products_get_a_new_scale(dtype: Any, tmp_path: Path) -> None:
    a, b = codes((3, 7), dtype), codes((7, 5), dtype)
    scales = F([0.02, 0.03, 0.11])
    zeros = np.array([3, 5, 7], dtype)
    arrays = [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]]
    arrays = [np.asarray(v) for v in arrays]
    model = model_of("QLinearMatMul", arrays, 18)
    right = oracle(model, {f"x{i}": v for i, v in enumerate(arrays)})
    check(model, arrays, right, tmp_path)


def test_quantised_convolutions_have_a_scale_for_each_channel(tmp_path: Path) -> None:
    """Weights of 7 bits: without VNNI, onnxruntime's sums of two products saturate beyond."""
    x, w = codes((1, 2, 5, 5), np.uint8), codes((3, 2, 3, 3), np.int8) // np.int8(2)
    bias = random.integers(-900, 900, 3, np.int32)
    scale, one = random.uniform(0.01, 0.05, 3).astype(F), np.asarray(F(0.02))
    zeros = np.zeros(3, np.int8)
    point = np.asarray(np.uint8(117))
    arrays = [x, one, point, w, scale, zeros, np.asarray(F(0.9)), point, bias]
    model = model_of("QLinearConv", arrays, 18, pads=[1, 0, 1, 0], strides=[2, 1])
    right = oracle(model, {f"x{i}": v for i, v in enumerate(arrays)})
    check(model, arrays, right, tmp_path)
