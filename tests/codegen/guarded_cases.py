"""Every kind of kernel in sizes that fit no tile, for runs between guard pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from itertools import product as every
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import explorer
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, evaluate_shape
from explorer.ir.dtypes import integer_limits, is_float, numpy_dtype
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.forms import Form
from tests.codegen import cases, test_forms, test_packed_runs
from tests.codegen.guard_pages import run_between_guards
from tests.codegen.running import run_kernel
from tests.tile import test_windows

ODD = (1, 2, 7, 13, 17, 31, 33)


@dataclass(frozen=True)
class Guarded:
    """A kernel under a tiling, and its operands."""

    name: str
    kernel: Kernel
    tiling: Tiling
    arrays: dict[str, np.ndarray]
    sizes: dict[str, int] = field(default_factory=dict)
    env: ShapeEnv = ShapeEnv()

    def check(self, side: str) -> None:
        """It touches nothing outside, and gives what it gives elsewhere."""
        given = (self.kernel, self.tiling, self.arrays)
        got = run_between_guards(*given, side, self.sizes, self.env)
        want = run_kernel(*given, self.sizes, self.env)
        np.testing.assert_array_equal(got, want, err_msg=self.name)


def written() -> Iterator[Guarded]:
    """The kernels that are written out as data."""
    for c in cases.CASES:
        yield Guarded(c.name, c.kernel, c.tiling, cases.arrays(c), c.sizes, cases.ENV)


def learnt() -> Iterator[Guarded]:
    """Products with operands that are packed from runs."""
    for filters, sizes in test_packed_runs.CASES:
        yield Guarded(f"{filters} {sizes}", *test_packed_runs.learnt(filters, sizes))


def windows() -> Iterator[Guarded]:
    """Folds over sliding windows, with borders and without."""
    for c in test_windows.CASES:
        yield Guarded(c.name, c.kernel(), c.tiling(), c.arrays())


def some_products() -> Iterator[Guarded]:
    """Every fifth of them: of each form and width one or two of its six, never the same ones."""
    yield from islice(products(), 0, None, 5)


def products() -> Iterator[Guarded]:
    """Contractions of every form at every width, at the edges of their tiles."""
    for form, lanes in every(test_forms.BY_NAME, test_forms.WIDTHS):
        micro = test_forms.micro(form, lanes)
        for m, k, n in (
            (1, 1, 8),
            (13, 7, 33),
            (9, 16, 33),
            (micro.rows + 1, 5, micro.columns + 1),
        ):
            for constant in (True, False):
                if not test_forms.has_form(form, k, constant):
                    continue
                kernel = test_forms.product(form, m, k, n, constant)
                name = f"product {form.left} {form.right} {lanes} {m}x{k}x{n} {constant}"
                yield of_kernel(name, kernel, Tiling((("i", 5),), micro))


def convolutions() -> Iterator[Guarded]:
    """Convolutions of small integers and of float64, with and without whole groups."""
    forms = (
        Form("uint8", "int8", "int32"),
        Form("int16", "int16", "int32"),
        Form("int8", "uint4", "int32"),
    )
    for form in (*forms, Form("float64", "float64", "float64")):
        for c, o, size, step, pad in ((3, 9, 3, 2, 1), (4, 17, 1, 1, 0), (5, 8, 2, 1, 0)):
            kernel = test_forms.convolution(form, 7, c, o, size, step, pad)
            tiling = Tiling((("p", 3),), test_forms.micro(form, 16))
            yield of_kernel(f"convolution {form.left} {c} {o} {size} {step}", kernel, tiling)


def of_kernel(name: str, kernel: Kernel, tiling: Tiling) -> Guarded:
    return Guarded(name, kernel, tiling, operands(kernel, {}))


def operands(kernel: Kernel, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    rng, out = np.random.default_rng(0), dict[str, np.ndarray]()
    for name in kernel.inputs:
        shape, dtype = evaluate_shape(kernel.shape(name), sizes), kernel.dtype(name)
        if is_float(dtype):
            out[name] = rng.standard_normal(shape).astype(numpy_dtype(dtype))
            continue
        low, high = (0, 4) if dtype in ("int64", "int32") else integer_limits(dtype)
        out[name] = rng.integers(low, high + 1, shape).astype(numpy_dtype(dtype))
    return out


Weight = tuple[str, tuple[int, ...], str]


def operators() -> Iterator[Guarded]:
    """The kernels of ONNX operators with the tiles that Roller takes for them."""
    for op, shape, weights, attrs in OPERATORS:
        yield from of_operator(op, "float32", shape, weights, attrs)


def quantised() -> Iterator[Guarded]:
    """The kernels of operators on small integers, narrow floats and float64."""
    for op, dtype, shape, weights, attrs in NARROW:
        yield from of_operator(op, dtype, shape, weights, attrs)


def of_operator(
    op: str, dtype: str, shape: tuple[int, ...], weights: tuple[Weight, ...], attrs: dict[str, Any]
) -> Iterator[Guarded]:
    name = f"{op} {dtype} {shape} {weights} {attrs}"
    with NamedTemporaryFile(suffix=".onnx") as file:
        file.write(model(op, dtype, shape, weights, attrs))
        file.flush()
        compiled = explorer.compile(file.name, until="ROLLED")
    program = compiled.snapshots[-1].after
    for binding in program.kernel_calls:
        call = binding.expr
        assert isinstance(call, KernelCall) and isinstance(call.tiling, Tiling)
        arrays = operands(call.kernel, {})
        for tensor, value in zip(call.kernel.inputs, call.args, strict=True):
            if value.name in program.constants:
                arrays[tensor] = program.constants[value.name].array
        yield Guarded(f"{name}: {binding.var.name}", call.kernel, call.tiling, arrays)


def model(
    op: str, dtype: str, shape: tuple[int, ...], weights: tuple[Weight, ...], attrs: dict[str, Any]
) -> bytes:
    code = helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype))
    rng, given = np.random.default_rng(1), []
    for name, extents, kind in weights:
        array = np.asarray(rng.integers(0, 3, extents) + 1).astype(numpy_dtype(kind))
        given.append(numpy_helper.from_array(array, name))
    x = helper.make_tensor_value_info("x", code, shape)
    node = helper.make_node(op, ["x", *(n for n, _, _ in weights)], ["y"], **attrs)
    graph = helper.make_graph([node], "g", [x], [onnx.ValueInfoProto(name="y")], given)
    opset = [helper.make_opsetid("", 21)]
    made: bytes = helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString()
    return made


def conv(o: int, c: int, *size: int) -> tuple[Weight, ...]:
    return (("w", (o, c, *size), "float32"), ("b", (o,), "float32"))


OPERATORS: tuple[tuple[str, tuple[int, ...], tuple[Weight, ...], dict[str, Any]], ...] = (
    *(("MatMul", (m, 13), (("w", (13, n), "float32"),), {}) for m, n in every((1, 31), (1, 33))),
    ("MatMul", (3, 7, 5), (("w", (3, 5, 9), "float32"),), {}),
    ("Gemm", (17, 7), (("w", (33, 7), "float32"), ("b", (33,), "float32")), {"transB": 1}),
    ("Conv", (1, 3, 23, 19), conv(17, 3, 7, 7), {"strides": [2, 2], "pads": [3, 3, 3, 3]}),
    ("Conv", (2, 5, 9, 7), conv(33, 5, 3, 3), {"pads": [1, 1, 1, 1]}),
    ("Conv", (1, 16, 7, 7), conv(32, 16, 1, 1), {}),
    ("Conv", (1, 12, 9, 9), conv(12, 1, 3, 3), {"group": 12, "pads": [1, 1, 1, 1]}),
    ("Conv", (1, 17, 5, 13), conv(17, 1, 5, 5), {"group": 17, "pads": [2] * 4, "strides": [2, 1]}),
    ("Conv", (1, 8, 11, 11), conv(18, 4, 3, 3), {"group": 2, "dilations": [2, 2]}),
    ("Conv", (1, 3, 37), (("w", (9, 3, 5), "float32"),), {"pads": [2, 2]}),
    ("ConvTranspose", (1, 9, 5, 7), (("w", (9, 17, 3, 3), "float32"),), {"strides": [2, 2]}),
    ("MaxPool", (1, 13, 9, 7), (), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
    ("AveragePool", (1, 5, 8, 9), (), {"kernel_shape": [2, 3]}),
    ("GlobalAveragePool", (2, 17, 7, 7), (), {}),
    *(("Softmax", (3, n), (), {}) for n in ODD),
    ("Softmax", (5, 7, 3), (), {"axis": 1}),
    ("LogSoftmax", (2, 33), (), {}),
    (
        "LayerNormalization",
        (5, 19),
        (("s", (19,), "float32"), ("b", (19,), "float32")),
        {"epsilon": 1e-3},
    ),
    ("ReduceMean", (3, 5, 17), (("axes", (1,), "int64"),), {}),
    *(("Transpose", (3, a, b), (), {"perm": [0, 2, 1]}) for a, b in ((1, 17), (33, 18), (16, 16))),
    ("Transpose", (2, 3, 5, 7), (), {"perm": [3, 1, 0, 2]}),
    *((op, (3, 37), (), {}) for op in ("Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Gelu", "Sqrt")),
    *(("Add", (n,), (("w", (1,), "float32"),), {}) for n in ODD),
    ("Concat", (3, 5), (("w", (3, 7), "float32"),), {"axis": 1}),
    ("Gather", (7, 5), (("w", (3,), "int64"),), {}),
    ("PRelu", (1, 13, 3), (("w", (13, 1), "float32"),), {}),
    ("CumSum", (2, 3, 4, 17), (("w", (), "int64"),), {}),
)

BYTES = (("s", (), "float32"), ("z", (), "uint8"))
NARROW: tuple[tuple[str, str, tuple[int, ...], tuple[Weight, ...], dict[str, Any]], ...] = (
    *(
        ("MatMulInteger", a, (m, k), (("w", (k, 17), b), ("z", (), a)), {})
        for a, b in every(("uint8", "int8"), ("int8", "uint8"))
        for m, k in ((1, 7), (9, 5))
    ),
    ("ConvInteger", "uint8", (1, 3, 9, 7), (("w", (9, 3, 3, 3), "int8"), BYTES[1]), {}),
    (
        "ConvInteger",
        "uint8",
        (1, 5, 7, 7),
        (("w", (17, 5, 3, 3), "uint8"), BYTES[1]),
        {"pads": [1, 1, 1, 1], "strides": [2, 2]},
    ),
    (
        "QLinearConv",
        "uint8",
        (1, 7, 9, 5),
        (
            *BYTES,
            ("w", (9, 7, 3, 3), "int8"),
            ("ws", (9,), "float32"),
            ("wz", (9,), "int8"),
            ("ys", (), "float32"),
            ("yz", (), "uint8"),
            ("b", (9,), "int32"),
        ),
        {"pads": [1, 1, 1, 1]},
    ),
    *(("QuantizeLinear", "float32", (3, n), BYTES, {}) for n in (1, 17)),
    ("DequantizeLinear", "uint8", (3, 17), BYTES, {}),
    *(("Cast", t, (33,), (), {"to": to}) for t in ("int64", "bool") for to in (3, 10, 16)),
    *(
        ("MatMul", t, (m, 7), (("w", (7, 17), t),), {})
        for t in ("float16", "float64")
        for m in (1, 9)
    ),
    ("Conv", "float16", (1, 3, 9, 7), (("w", (9, 3, 3, 3), "float16"),), {"pads": [1, 1, 1, 1]}),
    ("Conv", "float64", (1, 3, 9, 7), (("w", (9, 3, 3, 3), "float64"),), {"pads": [1, 1, 1, 1]}),
    ("Softmax", "float16", (3, 17), (), {}),
    ("Transpose", "uint8", (3, 17, 5), (), {"perm": [0, 2, 1]}),
    ("Transpose", "float64", (3, 17, 5), (), {"perm": [0, 2, 1]}),
)

FAMILIES: dict[str, Callable[[], Iterator[Guarded]]] = {
    "written": written,
    "learnt": learnt,
    "windows": windows,
    "some products": some_products,
    "products": products,
    "convolutions": convolutions,
    "operators": operators,
    "quantised": quantised,
}
