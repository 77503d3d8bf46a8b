"""Printed thread blocks make what their kernels are, whatever order their threads go in."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import explorer.codegen.cuda.build as build
import explorer.codegen.cuda.emitter as shared_arrays
from explorer.codegen.cuda.build import BlockCode
from explorer.codegen.cuda.simulator import run_block_source
from explorer.errors import BadOption, CheckFailed
from explorer.ir.affine import var
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Apply, Compute, Kernel, Read, TensorSpec, at, axes
from tests.codegen.cases import CASES, ENV, Case, linear, softmax
from tests.codegen.cuda.launched import A100, SMALL, code_of, is_right, launched
from tests.examples import examples
from tests.strategies.kernels import cases
from tests.tile.gpu.blocks import case

ROOT = Path(__file__).parents[3]
SHORT = [c for c in CASES if not c.name.startswith(("conv", "attention batch", "softmax batch"))]
SHORT += [c for c in CASES if c.name.startswith(("conv 1x7x7x3", "conv 1x7x8x5"))]


@pytest.mark.few(6)
@pytest.mark.parametrize("c", SHORT, ids=lambda c: c.name)
def test_a_case_is_right(c: Case) -> None:
    assert is_right(c, code_of(c))


@pytest.mark.exhaustive
@pytest.mark.parametrize("c", [c for c in CASES if c not in SHORT], ids=lambda c: c.name)
def test_each_other_case_is_right(c: Case) -> None:
    assert is_right(c, code_of(c))


@pytest.mark.parametrize("c", [linear(1, 1, 1, "none", {}), linear(13, 11, 7, "relu", {})])
def test_blocks_of_a_data_sheet_reach_past_every_end(c: Case) -> None:
    assert is_right(c, code_of(c, A100))


def right(c: Case) -> None:
    try:
        code = code_of(c)
    except BadOption:
        return
    assert is_right(c, code)


SLOW = [HealthCheck.too_slow]


@pytest.mark.exhaustive
@settings(max_examples=10, deadline=None, suppress_health_check=SLOW)
@given(cases())
def test_random_kernels_are_right(c: Case) -> None:
    right(c)


@pytest.mark.exhaustive
@settings(max_examples=examples(300), deadline=None, suppress_health_check=SLOW)
@given(cases())
def test_many_random_kernels_are_right(c: Case) -> None:
    right(c)


def test_what_is_not_printed_says_why() -> None:
    a = axes("a", (5,))
    tensors = (TensorSpec("x", (5,), "float8_e4m3fn"), TensorSpec("y", (5,)))
    cast = Compute("y", a, Apply("cast_float32", (at("x", a),)))
    with pytest.raises(BadOption, match="no elements of float8_e4m3fn"):
        build.print_block(Kernel("narrow", tensors, (cast,), ("x",), ("y",)), SMALL, ENV, {})


@pytest.mark.parametrize("combiner", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
def test_reductions_keep_nan_and_infinity(combiner: str, dtype: str) -> None:
    a, r = axes("a", (5,)), axes("r", (7,))
    c = Compute("y", a, at("x", (*a, *r)), r, combiner)
    tensors = (TensorSpec("x", (5, 7), dtype), TensorSpec("y", (5,), dtype))
    k = Kernel("reduced", tensors, (c,), ("x",), ("y",))
    x = np.arange(35).reshape(5, 7).astype(dtype)
    if dtype.startswith("float"):
        x[0, 3], x[1, 0], x[2, 6], x[3, :2] = np.nan, np.inf, -np.inf, (np.inf, -np.inf)
    with np.errstate(all="ignore"):
        ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
        want = ufunc[combiner].reduce(x, axis=1, dtype=x.dtype)
    code = build.print_block(k, SMALL, ShapeEnv(), {})
    np.testing.assert_array_equal(launched(code, k, {"x": x}, {}), want)


@pytest.mark.parametrize("first", [0, 3])
def test_what_is_read_backwards_lies_inside(first: int) -> None:
    """A thread's index counts from the least one that any has."""
    a = axes("a", (6, 4))
    read = Read("x", (var("a0") * -1 + 5 + first, var("a1")))
    tensors = (TensorSpec("x", (12, 4)), TensorSpec("y", (6, 4)))
    k = Kernel("backwards", tensors, (Compute("y", a, read),), ("x",), ("y",))
    x = np.arange(48, dtype=np.float32).reshape(12, 4)
    code = build.print_block(k, SMALL, ShapeEnv(), {})
    np.testing.assert_array_equal(launched(code, k, {"x": x}, {}), x[first : first + 6][::-1])


KERNELS = (
    case("linear 5x7x9"),
    linear(3, 150, 4, "relu", {}),  # in chunks: one is read before the next one comes
    softmax(1, 7, {}),
    case("layer norm 7 19"),
)


def without(code: BlockCode, number: int) -> BlockCode:
    """The source without one of the lines where threads wait."""
    lines = code.source.split("\n")
    waits = [n for n, line in enumerate(lines) if "cuda.sync" in line]
    del lines[waits[number]]
    return replace(code, source="\n".join(lines))


def test_a_missing_sync_shows_as_a_wrong_value() -> None:
    broken = []
    for c in KERNELS:
        code = code_of(c)
        broken += [(c, without(code, n)) for n in range(code.source.count("cuda.sync"))]
    assert len(broken) >= 7
    tries = [(*broken[seed % len(broken)], seed) for seed in range(100)]
    assert sum(not is_right(c, code, seed) for c, code, seed in tries) >= 99


def test_more_shared_memory_than_code_may_name_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_arrays, "STATIC_BYTES", 0)
    monkeypatch.setattr(build, "STATIC_BYTES", 0)
    c, gpu = case("attention 1 16"), replace(SMALL, name="none that is known")
    code = code_of(c, gpu)
    assert code.dynamic_bytes == code.shared_bytes > 0
    assert "cuda.shared.array(0, float32, 16)  # elements 0 to " in code.source
    assert f", 0, {code.dynamic_bytes}](" in code.source
    assert is_right(c, code)


def test_a_thread_that_leaves_an_array_is_found() -> None:
    code = code_of(case("linear 5x7x9"))
    y = code.source.replace("y[uint64(", "y[uint64(-1 + ")
    with pytest.raises(CheckFailed, match=f"accesses y out of bounds: element {2**64 - 1} of 45"):
        is_right(case("linear 5x7x9"), replace(code, source=y))


def test_threads_that_never_come_to_a_sync_are_found() -> None:
    source = (
        "def kernel(y):\n"
        "    if cuda.threadIdx.x < 2:\n"
        "        cuda.syncthreads()\n"
        "    y[cuda.threadIdx.x] = float32(1.0)\n"
    )
    with pytest.raises(CheckFailed, match="2 threads never reach a Sync"):
        run_block_source(source, 1, 4, 0, {"y": np.zeros(4, np.float32)})


SIMULATED = """
import numpy as np
from numba.cuda.simulator.kernelapi import FakeCUDAShared
array = FakeCUDAShared.array  # which knows no alignment
FakeCUDAShared.array = lambda self, size, dtype, alignment: array(self, size, dtype)
from tests.codegen.cases import arrays, linear
from tests.codegen.cuda.launched import A100, code_of
c = linear(5, 7, 3, "erf", {})
code, values, names = code_of(c, A100), arrays(c), {"__name__": "block"}
exec(code.source, names)
y = np.full(15, np.nan, np.float32)
names["kernel"][code.grid, code.threads](*(values.get(t.name, y).ravel() for t in code.tensors))
from explorer.ops.interpreter.evaluate import evaluate_kernel
want = evaluate_kernel(c.kernel, [values[n] for n in c.kernel.inputs], c.sizes)
np.testing.assert_allclose(y.reshape(5, 3), want, 1e-5, 1e-5)
print("the same")
"""


@pytest.mark.exhaustive
def test_numbas_own_simulator_makes_the_same() -> None:
    env = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SIMULATED]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "the same", done.stderr[-2000:]


def test_a_device_without_cuda_is_told() -> None:
    with pytest.raises(BadOption, match="is no GPU that Numba generates code for"):
        code_of(case("mask"), replace(SMALL, capability=0))


def test_equal_kernels_are_printed_once() -> None:
    c = case("softmax 2 33")
    first, again = code_of(c), build.print_block(c.kernel, SMALL, ENV, c.sizes)
    assert first.tile_program is again.tile_program
