"""Every scalar function and conversion of WGSL on every dtype, at hard values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.codegen.wgsl.build import Shader, print_shader
from explorer.codegen.wgsl.functions import SPELLINGS
from explorer.codegen.wgsl.types import unprinted
from explorer.devices.catalogue import device
from explorer.errors import BadOption
from explorer.ir.affine import var
from explorer.ir.dims import ShapeEnv
from explorer.ir.dtypes import as_computed, computed, is_float, numpy_dtype
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS
from explorer.ops.interpreter import scalar
from explorer.portable.portable_program import PortableTensor
from explorer.portable.webgpu import Dispatch, ProgramShader, WebGpuProgram
from tests.targets.wgsl import gpu
from tests.targets.wgsl.in_browser import chromium, gpu_page, run_in

needs_gpu = pytest.mark.skipif(
    gpu.device() is None, reason="no package wgpu, or no adapter with Vulkan such as lavapipe"
)
DTYPES = ("float32", "int32", "uint32", "int8", "uint8", "int16", "uint16", "int64", "bool")
FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1e-3, -1e-3, 0.2, 2.5, -2.5, 3.5, 7.0, -7.25, 88.0, -90.0),
    *(1e-20, 1e20, -1e20, 0.999999, 1.000001, 12.0, 100.25, np.inf, -np.inf, np.nan, 5e3, 33.0),
)
INTEGERS = (0, 1, -1, 2, 3, -3, 7, -8, 31, 32, 33, 100, -100, 127, -128, 255, 1000, -1000)
LARGEST = {"int32": (2**31 - 1, -(2**31)), "uint32": (2**32 - 1, 2**31)}
# In units in the last place: WGSL guarantees 3 + 2 |x| of exp, of which others are made.
ULPS = {"exp": 180, "sigmoid": 180, "sinh": 180, "cosh": 180, "pow": 400, "tanh": 8, "erf": 8}
OTHER_ULPS = 6


def values(dtype: str) -> np.ndarray:
    """Numbers of a dtype at which functions may go wrong."""
    if is_float(dtype):
        return np.array(FLOATS, np.float32)
    if dtype == "bool":
        return np.array([False, True])
    every = (*INTEGERS, *LARGEST.get(dtype, ()))
    with np.errstate(all="ignore"):
        return np.unique(np.array(every, np.int64).astype(numpy_dtype(dtype)))


def elementwise(expr: Apply, inputs: dict[str, np.ndarray], dtype: str) -> Kernel:
    """A kernel that applies a function to elements."""
    count = len(next(iter(inputs.values())))
    specs = [TensorSpec(name, (count,), str(a.dtype)) for name, a in inputs.items()]
    axis = Axis("i", count)
    return Kernel(
        "function",
        (*specs, TensorSpec("y", (count,), dtype)),
        (Compute("y", (axis,), expr),),
        tuple(inputs),
        ("y",),
    )


def shader_of(op: str, args: list[np.ndarray], dtype: str) -> tuple[Shader, Kernel]:
    """The shader of a function of arrays, and its kernel."""
    inputs = {f"x{n}": a for n, a in enumerate(args)}
    expr = Apply(op, tuple(Read(name, (var("i"),)) for name in inputs))
    kernel = elementwise(expr, inputs, dtype)
    return print_shader(kernel, device("webgpu"), ShapeEnv(), {}), kernel


def computed_on_gpu(op: str, args: list[np.ndarray], dtype: str) -> np.ndarray:
    """A function of arrays on the GPU, in checked form."""
    shader, kernel = shader_of(op, args, dtype)
    (result,) = gpu.launch(shader, kernel, args, {}, seed=1)
    return result


def program_of(cases: dict[str, tuple[str, list[np.ndarray], str]]) -> WebGpuProgram:
    """A program with a dispatch for each function of arrays, by name."""
    inputs, outputs, dispatches, end = [], [], [], 0
    shaders: list[ProgramShader] = []
    for name, (op, args, dtype) in cases.items():
        shader, _ = shader_of(op, args, dtype)
        places, count = {}, len(args[0])
        for n, a in enumerate(args):
            places[f"x{n}"] = end
            inputs.append(PortableTensor(f"{name}.{n}", str(a.dtype), (count,), end))
            end += -(-count // 64) * 64
        places["y"] = end
        outputs.append(PortableTensor(name, dtype, (count,), end))
        end += -(-count // 64) * 64
        own = tuple(places[t.name] for t in shader.tensors)
        dispatches.append(Dispatch(len(shaders), own, name, ()))
        shaders.append(ProgramShader(shader, ()))
    return WebGpuProgram(
        "functions", "webgpu", (), tuple(inputs), tuple(outputs), tuple(shaders),
        tuple(dispatches), (), 4 * end, bytes(256), (),
    )  # fmt: skip


def arguments(op: str, dtype: str) -> list[np.ndarray]:
    """Every pair of values, or every value."""
    x = values(dtype)
    if op == "where":
        return [np.arange(len(x)) % 2 == 0, x, x[::-1].copy()]
    if SCALAR_FUNCTIONS[op].arity == 1:
        return [x]
    a, b = (np.ravel(m) for m in np.meshgrid(x, x))
    if op in ("shl", "shr", "pow") and not is_float(dtype):
        fits = b <= 40 if op != "pow" else b <= 8
        a, b = a[fits], b[fits]
    return [a, b]


def is_near(got: np.ndarray, want: np.ndarray, ulps: float) -> bool:
    """Return True if floats are equal up to a number of units in the last place."""
    if got.dtype.kind != "f":
        return np.array_equal(got, want)
    with np.errstate(all="ignore"):
        return bool(np.allclose(got, want, rtol=ulps * 2.0**-23, atol=1.2e-38, equal_nan=True))


def case_of(op: str, dtype: str) -> tuple[list[np.ndarray], np.ndarray] | None:
    """The arguments and the results of a function, None if it has none of a dtype."""
    if not SCALAR_FUNCTIONS[op].is_defined_on(dtype) and op != "where":
        return None
    if dtype == "bool" and op in ("sub", "neg", "sign", "div", "mod", "floordiv", "pow"):
        return None  # NumPy has none of them on bool, or returns integers
    args = arguments(op, dtype)
    if op in ("sin", "cos"):
        args = [args[0][~(np.isfinite(args[0]) & (np.abs(args[0]) > 1e5))]]
    with np.errstate(all="ignore"):
        want = np.asarray(scalar.call(op, list(args)))
    if dtype == "int64":
        fits = np.abs(want.astype(np.float64)) < 2**31
        args, want = [a[fits] for a in args], want[fits]
    return args, want


def wrong_elements(
    op: str, args: list[np.ndarray], got: np.ndarray, want: np.ndarray
) -> list[tuple[Any, ...]]:
    """The arguments, the result and the reference where a function is wrong."""
    if op in ("sin", "cos"):
        near = np.isclose(got, want, rtol=1e-5, atol=2e-6, equal_nan=True)
    else:
        ulps = ULPS.get(op, OTHER_ULPS)
        near = np.array([is_near(got[n : n + 1], want[n : n + 1], ulps) for n in range(len(want))])
    return [(*(a[n] for a in args), got[n], want[n]) for n in np.flatnonzero(~near)]


@needs_gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", SPELLINGS)
def test_a_function_is_that_of_numpy(op: str, dtype: str) -> None:
    case = case_of(op, dtype)
    if case is None:
        return
    args, want = case
    got = computed_on_gpu(op, args, str(want.dtype))
    assert not wrong_elements(op, args, got, want)[:8]


@pytest.mark.browser
@pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")
def test_functions_of_floats_are_those_of_numpy_in_a_browser(browser: Any) -> None:
    every = {op: case for op in SPELLINGS if (case := case_of(op, "float32")) is not None}
    program = program_of({op: (op, args, str(y.dtype)) for op, (args, y) in every.items()})
    inputs = {f"{op}.{n}": a for op, (args, _) in every.items() for n, a in enumerate(args)}
    with gpu_page(browser) as page:
        if not page.evaluate("async () => !!(await navigator.gpu?.requestAdapter())"):
            pytest.skip("this Chromium offers no adapter for WebGPU")
        result = run_in(page, program, inputs)
    assert "error" not in result, result
    wrong = {
        op: wrong_elements(op, args, result["outputs"][op], want)[:4]
        for op, (args, want) in every.items()
    }
    assert not {op: rows for op, rows in wrong.items() if rows}


@needs_gpu
@pytest.mark.parametrize("target", (*DTYPES, "float16", "bfloat16", "int4", "uint4"))
@pytest.mark.parametrize("source", (*DTYPES, "float16", "bfloat16"))
def test_a_conversion_is_that_of_the_interpreter(source: str, target: str) -> None:
    """A float beyond 32 bits is left out where the target has 64: there is no such value."""
    with np.errstate(all="ignore"):
        x = values(computed(source)).astype(numpy_dtype(source))
    if is_float(source) and not is_float(target) and target != "bool":
        with np.errstate(all="ignore"):
            size = np.abs(np.asarray(x, np.float32))
            low = -1.0 if target in ("uint8", "uint16", "uint32", "uint4") else -np.inf
            x = x[(size < 2**31) & (np.asarray(x, np.float32) > low)]
    with np.errstate(all="ignore"):
        want = scalar.cast(as_computed(x), target)
    if target == "int64":
        x, want = (a[np.abs(want.astype(np.float64)) < 2**31] for a in (x, want))
    got = computed_on_gpu(f"cast_{target}", [x], target)
    np.testing.assert_array_equal(np.asarray(as_computed(got)), want)


def test_dtypes_without_a_type_are_refused() -> None:
    assert "no float64" in unprinted("float64") and unprinted("float8_e5m2")
    with pytest.raises(BadOption, match="WGSL has no float64; convert the model to float32"):
        computed_on_gpu("exp", [np.ones(3)], "float64")
    with pytest.raises(BadOption, match="bits of int64 are not printed in WGSL"):
        kernel = elementwise(
            Apply("bits_int64", (Read("x0", (var("i"),)),)), {"x0": np.ones(3, np.int64)}, "int64"
        )
        print_shader(kernel, device("webgpu"), ShapeEnv(), {})


@needs_gpu
@pytest.mark.parametrize(("source", "target"), [("uint8", "int8"), ("int8", "uint8")])
def test_bits_of_small_integers_are_the_other_kind_of_integer(source: str, target: str) -> None:
    x = np.arange(256, dtype=np.uint8).view(source)
    got = computed_on_gpu(f"bits_{target}", [x], target)
    np.testing.assert_array_equal(np.asarray(got), x.view(target))
