"""Elements that are not stored as they are computed with, in thread blocks: bfloat16, and integers
of less than a byte, are what ml_dtypes makes of them.
"""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import explorer
from explorer.codegen.cuda.assemble import assemble, why_not
from explorer.codegen.cuda.bank_accesses import accesses
from explorer.codegen.cuda.build import print_block
from explorer.codegen.cuda.simulated import launch, simulate
from explorer.codegen.cuda.simulator_elements import BFLOAT16_NAN, to_bfloat16
from explorer.devices.catalogue import device
from explorer.errors import CheckFailed
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import thread_block
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec, at, axes
from explorer.ops.interpreter.evaluate import evaluate
from tests.codegen.cases import ENV
from tests.codegen.cuda.launched import A100, SMALL

HALF = np.dtype(ml_dtypes.bfloat16)
INTEGERS = ("int4", "uint4", "int2", "uint2")


def cast(source: str, target: str, count: int) -> Kernel:
    a = axes("a", (count,))
    tensors = (TensorSpec("x", (count,), source), TensorSpec("y", (count,), target))
    return Kernel(
        "cast", tensors, (Compute("y", a, Apply(f"cast_{target}", (at("x", a),))),), ("x",), ("y",)
    )


def made(k: Kernel, *given: np.ndarray) -> np.ndarray:
    (found,) = launch(print_block(k, SMALL, ENV, {}), k, given, {})
    return found


def test_every_bfloat16_is_read() -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(HALF)
    np.testing.assert_array_equal(made(cast("bfloat16", "float32", x.size), x), x.astype("f4"))


def test_what_is_stored_is_the_nearest() -> None:
    """Ties, subnormals, what becomes infinite, infinities, NaN."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 2048, np.uint32)
    bits[:512] = bits[:512] & 0xFFFF0000 | 0x8000  # halfway
    bits[512:640] &= 0x807FFFFF  # subnormal
    x = bits.view(np.float32)
    x[:4] = np.inf, -np.inf, np.nan, np.finfo(np.float32).max
    with np.errstate(all="ignore"):
        want = x.astype(HALF)
    found = made(cast("float32", "bfloat16", x.size), x)
    assert found.dtype == HALF
    np.testing.assert_array_equal(found.astype("f4"), want.astype("f4"))


def test_around_every_bfloat16_the_nearest_is_taken() -> None:
    """Each of them, halfway to the next one, and a bit less and more than that."""
    each = np.arange(1 << 16, dtype=np.uint32) << 16
    for off in (0, 0x7FFF, 0x8000, 0x8001):
        x = (each + np.uint32(off)).view(np.float32)
        found = np.array([to_bfloat16(value) for value in x])
        with np.errstate(all="ignore"):
            want = x.astype(HALF).view(np.uint16)
        np.testing.assert_array_equal(found, np.where(x == x, want, BFLOAT16_NAN))


def test_what_is_copied_keeps_its_bits() -> None:
    x = np.arange(0x7F00, 0x8000, dtype=np.uint16)  # infinity, and all NaN
    a = axes("a", (x.size,))
    tensors = tuple(TensorSpec(n, (x.size,), "bfloat16") for n in ("x", "y"))
    k = Kernel("copy", tensors, (Compute("y", a, at("x", a)),), ("x",), ("y",))
    np.testing.assert_array_equal(made(k, x.view(HALF)).view(np.uint16), x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_of_less_than_a_byte_wrap(dtype: str) -> None:
    x = np.arange(-128, 128, dtype=np.int8)
    stored = made(cast("int8", dtype, x.size), x)
    want = x.astype(dtype)
    np.testing.assert_array_equal(stored.astype(int), want.astype(int))
    np.testing.assert_array_equal(made(cast(dtype, "int32", x.size), want), want.astype("i4"))


def product(rows: int, columns: int, depth: int) -> Kernel:
    a, k = axes("a", (rows, columns)), Axis("k", depth)
    read = (Read("x", (var("a0"), var("k"))), Read("w", (var("k"), var("a1"))))
    shapes = {"x": (rows, depth), "w": (depth, columns), "y": (rows, columns)}
    tensors = tuple(TensorSpec(n, shape, "bfloat16") for n, shape in shapes.items())
    sides = tuple(Apply("cast_float32", (r,)) for r in read)
    compute = Compute("y", a, Apply("cast_bfloat16", (Apply("mul", sides),)), (k,), "sum")
    return Kernel("product", tensors, (compute,), ("x", "w"), ("y",))


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(16))
def test_random_products_are_right(seed: int) -> None:
    """Staged in shared memory, with register tiles, and whatever edges."""
    rng = np.random.default_rng(seed)
    rows, columns, depth = (int(n) for n in rng.integers(2, 40, 3))
    k = product(rows, columns, depth)
    own = (("i0", int(rng.choice([1, 2, 4]))), ("i1", int(rng.choice([1, 2]))))
    block = thread_block((("i0", 8), ("i1", 16)), 64, own, (("r2", int(rng.choice([8, 16]))),))
    code = print_block(k, A100, ENV, {}, block)
    x, w = (rng.integers(-4, 5, k.shape(t)).astype(HALF) for t in k.inputs)
    (found,) = launch(code, k, (x, w), {}, seed)
    want = (x.astype("f4") @ w.astype("f4")).astype(HALF)
    np.testing.assert_array_equal(found, want)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("columns", "register", "pairs"), [(32, 2, True), (32, 4, True), (32, 1, False), (31, 2, False)]
)
def test_neighbours_that_begin_at_an_even_place_are_stored_at_once(
    columns: int, register: int, pairs: bool
) -> None:
    rng, k = np.random.default_rng(0), product(32, columns, 24)
    block = thread_block((("i0", 8), ("i1", 16)), 64, (("i0", 2), ("i1", register)), (("r2", 8),))
    x, w = (rng.integers(-4, 5, k.shape(t)).astype(HALF) for t in k.inputs)
    want = (x.astype("f4") @ w.astype("f4")).astype(HALF)
    for aligned in (True, False):
        code = print_block(k, A100, ENV, {}, block, aligned)
        assert ("store2(y, " in code.source) == (pairs and aligned)
        (found,) = launch(code, k, (x, w), {}, 1)
        np.testing.assert_array_equal(found, want)
        written = accesses(code).owners["y"][0]
        assert len(written) == len(set(written.tolist())) == 8 * 16  # each by one thread
    if pairs:
        code = print_block(k, A100, ENV, {}, block)
        odd = replace(
            code, source=code.source.replace("store2(y, uint64(", "store2(y, uint64(1 + ")
        )
        with pytest.raises(CheckFailed, match="stores a word of y from"):
            launch(odd, k, (x, w), {}, 1)
        if not why_not(A100):
            assert "st.global.u32" in assemble(code, A100).ptx


@explorer.trace
def perceptron(
    x: explorer.tensor("bfloat16", "n", 24),  # type: ignore[valid-type,no-untyped-def]
    w: explorer.tensor("bfloat16", 24, 11),  # type: ignore[valid-type]
):
    h = explorer.np.maximum(x @ w, x[0, 0])
    return h / explorer.np.sum(h * h, 1, keepdims=True)


@pytest.mark.parametrize("n", [1, 7, 33])
def test_a_program_in_bfloat16_is_what_the_interpreter_makes(n: int) -> None:
    c = explorer.compile(perceptron, target="cuda-sim")
    rng = np.random.default_rng(n)
    given = {"x": rng.normal(size=(n, 24)).astype(HALF), "w": rng.normal(size=(24, 11))}
    given["w"] = given["w"].astype(HALF)
    found, run = simulate(c.program, given, c.device)
    assert run.launches > 0 and not run.refused
    (got,), (want,) = found.values(), evaluate(c.model.program, given).values()
    assert got.dtype == want.dtype == HALF
    np.testing.assert_allclose(got.astype("f4"), want.astype("f4"), 2e-2, 1e-3)


@pytest.mark.parametrize("capability", [75, 80, 90])
def test_rounding_is_one_instruction_where_there_is_one(capability: int) -> None:
    """Before 8.0 it is made of those of 32 bits."""
    gpu = replace(A100, name="another", capability=capability)
    if why := why_not(gpu):
        pytest.skip(why)
    k = cast("float32", "bfloat16", 1 << 16)
    found = assemble(print_block(k, gpu, ENV, {}), gpu)
    points = len(re.findall(r"st\.global\S*\.[ub]16", found.ptx))
    rounded = found.ptx.count("cvt.rn.bf16.f32"), found.ptx.count("setp.nan.f32")
    assert points and rounded == ((points, 0) if capability >= 80 else (0, points))
    assert "__nvvm_reflect" not in found.ptx and "shr.u64" not in found.ptx


@pytest.mark.parametrize("sheet", ["h100", "a100"])
def test_it_assembles(sheet: str) -> None:
    gpu = device(sheet)
    if why := why_not(gpu):
        pytest.skip(why)
    own = (("i0", 4), ("i1", 4))
    block = thread_block((("i0", 64), ("i1", 64)), 256, own, (("r2", 16),))
    code = print_block(product(256, 256, 64), gpu, ENV, {}, block)
    found = assemble(code, gpu)
    assert found.spilled_bytes == 0 and re.search(r"ld\.global\S*\.[ub]16", found.ptx)
