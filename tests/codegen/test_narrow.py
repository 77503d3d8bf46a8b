"""Narrow elements in generated code: bit by bit as in ml_dtypes, in vector registers."""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.codegen.build import build_kernel
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.dtypes import (
    ITEM_BYTES,
    NARROW_FLOATS,
    SMALL_INTEGERS,
    as_computed,
    computed,
    integer_limits,
    is_float,
    is_integer,
    numpy_dtype,
)
from explorer.ir.kernel import Apply, Compute, Const, Expr, Kernel, Read, TensorSpec, at, axes
from explorer.ops.interpreter.evaluate import evaluate_kernel
from tests.codegen.running import run_kernel
from tests.examples import examples
from tests.tile.programs import HERE

random = np.random.default_rng(0)
BITS = random.integers(0, 2**32, 20_000, np.uint64).astype(np.uint32).view(np.float32)
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 3.4e38, -3.4e38]
    + [65504, 65519, 65520, 65536, 448, 464, 465, 480, 57344, 61440, 61441, 240, 247, 248, 6, 7]
    + [2.0**n * m for n in range(-26, 4) for m in (1, 1.25, 1.5, 1.75)]
    + [2.0**-127, 2.0**-126, 1.5 * 2.0**-127, 2.0**127, 1.5 * 2.0**127],
    np.float32,
)
USUAL = (random.standard_normal(5000) * np.exp(random.uniform(-25, 15, 5000))).astype(np.float32)
SINGLES = np.concatenate([SPECIAL, BITS, USUAL])
HALFWAY = np.clip(USUAL, -6e4, 6e4).astype(np.float16).astype(np.float64) * (1 + 2.0**-11)
EXTREME = np.array([1e300, -1e300, 1e-320, 65519.99999999999, 65520.0])
NEAR = (HALFWAY * (1 + 2.0**-40), HALFWAY * (1 - 2.0**-40))
with np.errstate(invalid="ignore"):
    DOUBLES = np.concatenate([SINGLES.astype(np.float64), HALFWAY, *NEAR, EXTREME])
NARROW = sorted(NARROW_FLOATS)
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def pointwise(expr: Expr, target: str, **sources: tuple[str, int]) -> Kernel:
    """A kernel of one expression over vectors: `sources` are dtypes and lengths."""
    specs = tuple(TensorSpec(n, (length,), dtype) for n, (dtype, length) in sources.items())
    length = specs[0].shape[0]
    out = TensorSpec("y", (length,), target)
    compute = Compute("y", axes("a", (length,)), expr)
    return Kernel("k", (*specs, out), (compute,), tuple(sources), ("y",))


def cast(source: str, target: str, length: int) -> Kernel:
    x = at("x", axes("a", (length,)))
    return pointwise(Apply(f"cast_{target}", (x,)), target, x=(source, length))


def bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"uint{8 * array.itemsize}")


def check_equal(found: np.ndarray, right: np.ndarray) -> None:
    """Equal bits; a half NaN may be any NaN of the same sign."""
    assert found.dtype == right.dtype
    same = bits(found) == bits(right)
    if right.dtype == np.float16:
        same |= np.isnan(found) & np.isnan(right) & (np.signbit(found) == np.signbit(right))
    assert same.all(), (found[~same][:5], right[~same][:5])


def codes(dtype: str) -> np.ndarray:
    """Every element that there is."""
    count = 16 if dtype.startswith("float4") else 256 ** ITEM_BYTES[dtype]
    return np.arange(count).astype(f"uint{8 * ITEM_BYTES[dtype]}").view(numpy_dtype(dtype))


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_what_is_stored_is_rounded_as_ml_dtypes_rounds(source: str, dtype: str) -> None:
    x = SINGLES if source == "float32" else DOUBLES
    kernel = cast(source, dtype, len(x))
    with np.errstate(all="ignore"):
        right = x.astype(numpy_dtype(dtype))
    check_equal(run_kernel(kernel, Tiling(), {"x": x}), right)
    check_equal(evaluate_kernel(kernel, [x], {}), right)


@pytest.mark.parametrize("dtype", NARROW)
def test_every_element_is_read_as_ml_dtypes_reads_it(dtype: str) -> None:
    x = codes(dtype)
    found = run_kernel(cast(dtype, "float32", len(x)), Tiling(), {"x": x})
    np.testing.assert_array_equal(found, x.astype(np.float32))


@pytest.mark.few(3)
@pytest.mark.parametrize("dtype", NARROW)
def test_any_float32_becomes_what_ml_dtypes_makes_of_it(dtype: str) -> None:
    kernel = cast("float32", dtype, 8)

    @settings(max_examples=examples(60), deadline=None)
    @given(st.lists(st.integers(0, 2**32 - 1), min_size=8, max_size=8))
    def check(values: list[int]) -> None:
        x = np.array(values, np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            check_equal(run_kernel(kernel, Tiling(), {"x": x}), x.astype(numpy_dtype(dtype)))

    check()


@pytest.mark.parametrize("length", [1, 17])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2", "int4", "uint2"])
def test_copies_keep_every_bit(dtype: str, length: int) -> None:
    step = 257 if ITEM_BYTES[dtype] == 2 else 1
    x = (np.arange(length) * 7919 % 251 * step).astype(f"uint{8 * ITEM_BYTES[dtype]}")
    if dtype in SMALL_INTEGERS:
        x = as_computed(x.view(numpy_dtype(dtype)))
        x = x.astype(numpy_dtype(dtype))
    x = x.view(numpy_dtype(dtype))
    last = Read("x", (var("a0") * -1 + (length - 1),))
    kernel = pointwise(last, dtype, x=(dtype, length))
    found = run_kernel(kernel, Tiling(), {"x": x})
    np.testing.assert_array_equal(bits(found), bits(x)[::-1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_are_rounded_once(dtype: str) -> None:
    a, r = axes("a", (3,)), axes("r", (5001,))
    tensors = (TensorSpec("x", (5001, 3), dtype), TensorSpec("y", (3,), dtype))
    total = Compute("y", a, Read("x", (var("r0"), var("a0"))), r, "sum")
    x = np.ones((5001, 3), numpy_dtype(dtype))
    found = run_kernel(Kernel("sum", tensors, (total,), ("x",), ("y",)), Tiling(), {"x": x})
    np.testing.assert_array_equal(found, np.full(3, 5001).astype(numpy_dtype(dtype)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "int4", "int8"])
def test_loops_over_narrow_elements_use_vectors(dtype: str) -> None:
    x: Expr = at("x", axes("a", (4096,)))
    if is_float(dtype):
        scaled = Apply("mul", (Apply("cast_float32", (x,)), Const(1.5)))
        expr = Apply(f"cast_{dtype}", (scaled,))
    else:
        expr = Apply("add", (x, Const(1, dtype)))
    kernel = pointwise(expr, dtype, x=(dtype, 4096))
    text = build_kernel(kernel, Tiling(), ShapeEnv(), HERE).listings.assembly.text
    features = llvm.get_host_cpu_features()
    if features.get("avx512fp16") and dtype == "float16":
        # a product that is rounded once is the same in float16, where the processor has that
        assert "vmulph" in text and "ymm" in text
        return
    if features.get("avx512f"):
        assert "zmm" in text
    elif features.get("avx2"):
        assert "ymm" in text
    if features.get("f16c") and dtype == "float16":
        assert "vcvtph2ps" in text and "vcvtps2ph" in text


# Whole numbers.


def samples(dtype: str) -> np.ndarray:
    low, high = integer_limits(dtype)
    kind = np.uint64 if dtype == "uint64" else np.int64
    ends = np.array([low, low + 1, high, high - 1, 0, 1, 2, 3, 7], kind)
    if low < 0:
        ends = np.append(ends, np.array([-1, -2, -3], kind))
    return np.append(ends, random.integers(low, high, 9, kind, endpoint=True)).astype(dtype)


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    one = samples(dtype)
    return np.repeat(one, len(one)), np.tile(one, len(one))


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_whole_numbers_wrap_in_every_width(dtype: str) -> None:
    a, b = pairs(dtype)
    x, y = (at(n, axes("a", (len(a),))) for n in "ab")
    for op in ("add", "sub", "mul", "max", "min", "div", "mod", "floordiv", "bitand", "bitxor"):
        check_integers(Apply(op, (x, y)), dtype, a, b)
    for op in ("neg", "abs", "sign", "bitnot"):
        check_integers(Apply(op, (x,)), dtype, a, b)
    limited = Apply("min", (Apply("max", (y, Const(0, dtype))), Const(9, dtype)))
    check_integers(Apply("pow", (x, limited)), dtype, a, b)
    for op in ("lt", "ge", "eq"):
        check_integers(Apply("where", (Apply(op, (x, y)), x, Const(1, dtype))), dtype, a, b)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_the_width_or_more_leave_nothing_but_the_sign(dtype: str) -> None:
    a, _ = pairs(dtype)
    by = np.resize(np.array([0, 1, 3, 7, 8, 15, 16, 31, 32, 63, 64, 127], dtype), len(a))
    x, y = (at(n, axes("a", (len(a),))) for n in "ab")
    for op in ("shl", "shr"):
        check_integers(Apply(op, (x, y)), dtype, a, by)


def check_integers(expr: Apply, dtype: str, a: np.ndarray, b: np.ndarray) -> None:
    kernel = pointwise(expr, dtype, a=(dtype, len(a)), b=(dtype, len(b)))
    right = evaluate_kernel(kernel, [a, b], {})
    found = run_kernel(kernel, Tiling(), {"a": a, "b": b})
    wrong = found != right
    assert not wrong.any(), (
        expr.op,
        a[wrong][:4],
        b[wrong][:4],
        found[wrong][:4],
        right[wrong][:4],
    )


@pytest.mark.few(3)
@pytest.mark.parametrize("source", [*INTEGERS, *SMALL_INTEGERS, "bool"])
def test_whole_numbers_become_any_dtype(source: str) -> None:
    low, high = integer_limits(source)
    kind = np.uint64 if source == "uint64" else np.int64
    x = np.append(np.array([low, high, 0, 1], kind), random.integers(low, high, 29, kind, True))
    held = x.astype(computed(source)).astype(numpy_dtype(source))
    for target in (*INTEGERS, *SMALL_INTEGERS, "bool", "float32", "float64", "float16", "bfloat16"):
        kernel = cast(source, target, len(x))
        with np.errstate(over="ignore"):
            right = as_computed(held).astype(numpy_dtype(target))
        np.testing.assert_array_equal(run_kernel(kernel, Tiling(), {"x": held}), right, target)


@pytest.mark.parametrize("target", [*INTEGERS, *SMALL_INTEGERS])
def test_floats_are_cut_towards_zero(target: str) -> None:
    low, high = integer_limits(target)
    x = np.clip(USUAL[:999], max(low, -(2.0**53)), min(high, 2.0**53) * 0.999).astype(np.float32)
    found = run_kernel(cast("float32", target, len(x)), Tiling(), {"x": x})
    np.testing.assert_array_equal(as_computed(found), np.trunc(x).astype(as_computed(found).dtype))
    assert is_integer(target)
