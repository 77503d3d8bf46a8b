"""Contractions in every form that the micro-kernels have, at every vector width, on odd sizes."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.devices.isa import InstructionSet
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dtypes import integer_limits, is_float, numpy_dtype
from explorer.ir.kernel import Apply, Axis, Compute, Expr, Kernel, Read, TensorSpec
from explorer.ir.kernels.forms import ELEMENTS_OF_BYTE, FORMS, Form
from explorer.ir.tile_program import Panels
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.tile.interpret import Interpreter
from explorer.tile.lowering.lower import lower
from tests.codegen.running import run_kernel
from tests.tile.programs import TARGET

BY_NAME = sorted(FORMS, key=repr)
WIDTHS = {16: (14, 2), 8: (6, 2), 4: (5, 2)}
DOTS = ("groups", "pairs", "plain")  # a processor that has one has those after it


def wide(read: Read, dtype: str, form: Form) -> Expr:
    return read if dtype == form.total else Apply(f"cast_{form.total}", (read,))


def product(form: Form, m: int, k: int, n: int, constant: bool) -> Kernel:
    i, j, r = Axis("i", m), Axis("j", n), Axis("k", k)
    a, b = Read("a", (var("i"), var("k"))), Read("b", (var("k"), var("j")))
    expr = Apply("mul", (wide(a, form.left, form), wide(b, form.right, form)))
    specs = (
        TensorSpec("a", (m, k), form.left),
        TensorSpec("b", (k, n), form.right),
        TensorSpec("y", (m, n), form.total),
    )
    computes = (Compute("y", (i, j), expr, (r,), "sum"),)
    known = frozenset({"b"}) if constant else frozenset[str]()
    return Kernel("product", specs, computes, ("a", "b"), ("y",), known)


def convolution(form: Form, h: int, c: int, o: int, size: int, step: int, pad: int) -> Kernel:
    """Channels last, padded with 3."""
    places = (h + 2 * pad - size) // step + 1
    axes = (Axis("p", places), Axis("q", places), Axis("o", o))
    over = (Axis("c", c), Axis("u", size), Axis("v", size))
    rows = (var("p") * step + var("u") + -pad, var("q") * step + var("v") + -pad)
    a = Read("a", (*rows, var("c")), 3.0 if pad else None)
    b = Read("b", (var("o"), var("c"), var("u"), var("v")))
    expr = Apply("mul", (wide(a, form.left, form), wide(b, form.right, form)))
    specs = (
        TensorSpec("a", (h, h, c), form.left),
        TensorSpec("b", (o, c, size, size), form.right),
        TensorSpec("y", (places, places, o), form.total),
    )
    computes = (Compute("y", axes, expr, over, "sum"),)
    return Kernel("convolution", specs, computes, ("a", "b"), ("y",), frozenset({"b"}))


def operand(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Whole numbers of the full range, so that sums wrap; reals."""
    if is_float(dtype):
        return rng.standard_normal(shape).astype(numpy_dtype(dtype))
    low, high = integer_limits(dtype)
    return rng.integers(low, high + 1, shape, dtype=np.int64).astype(dtype)


def arrays(kernel: Kernel, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        n: operand(rng, tuple(map(int, kernel.shape(n))), kernel.dtype(n)) for n in kernel.inputs
    }


def agree(kernel: Kernel, tiling: Tiling, values: dict[str, np.ndarray]) -> None:
    """The generated code and the interpreter give what the reference gives."""
    want = evaluate_kernel(kernel, [values[n] for n in kernel.inputs], {})
    program = lower(kernel, tiling)
    assert any(isinstance(s, Panels) for s in program.body), "not a contraction"
    outputs = {kernel.output: np.zeros(want.size, want.dtype)}
    interpreter = Interpreter(program, {**values, **outputs}, {})
    interpreter.run()
    shown = interpreter.arrays[kernel.output].reshape(want.shape)
    got = run_kernel(kernel, tiling, values)
    assert got.dtype == want.dtype
    if not is_float(kernel.dtype(kernel.output)):
        np.testing.assert_array_equal(shown, want)
        np.testing.assert_array_equal(got, want)
        return
    close = 1e-14 if want.dtype == np.float64 else 2e-6  # of the largest sum
    most = close * max(1.0, float(np.abs(want).max()))
    np.testing.assert_allclose(got, want, rtol=0, atol=most)
    np.testing.assert_allclose(shown, want, rtol=0, atol=most)


def has_form(form: Form, k: int, constant: bool) -> bool:
    """True if a product of a dense left operand has this form."""
    if form.right not in ELEMENTS_OF_BYTE:
        return True
    return constant and (not is_float(form.left) or k % form.group == 0)


def micro(form: Form, lanes: int) -> Micro:
    rows, vectors = WIDTHS[lanes]
    return Micro(rows, vectors, form.lanes(lanes))


@pytest.mark.few(1)
@pytest.mark.parametrize("lanes", WIDTHS)
@pytest.mark.parametrize("form", BY_NAME, ids=lambda f: f"{f.left} {f.right}")
def test_products_of_every_form_and_width_equal_the_reference(form: Form, lanes: int) -> None:
    sizes = ((17, 13, 37, True), (5, 8, 33, False), (1, 1, 9, True), (9, 24, 35, True))
    for m, k, n, constant in sizes:
        if not has_form(form, k, constant):
            continue
        kernel = product(form, m, k, n, constant)
        agree(kernel, Tiling((("i", 7),), micro(form, lanes)), arrays(kernel))


@pytest.mark.few(4)
@pytest.mark.parametrize("lanes", WIDTHS)
@pytest.mark.parametrize("dot", DOTS)
def test_groups_of_small_integers_are_exact_with_any_instruction(
    dot: str, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums that pass 2 ** 31 wrap, and the largest products do not saturate."""
    here = {"groups": DOTS, "pairs": DOTS[1:], "plain": DOTS[2:]}[TARGET.dot_product(lanes)]
    if dot not in here:
        pytest.skip("this processor has no such instruction")
    monkeypatch.setattr(InstructionSet, "dot_product", lambda target, lanes: dot)
    for form in (
        Form("uint8", "int8", "int32"),
        Form("int16", "int16", "int32"),
        Form("int8", "uint8", "int32"),
        Form("int8", "uint4", "int32"),
    ):
        kernel = product(form, 7, 70, 19, constant=True)
        tiling = Tiling((("i", 7),), micro(form, lanes))
        agree(kernel, tiling, arrays(kernel))
        left, right = (integer_limits(t) for t in (form.left, form.right))
        for a, b in ((left[1], right[0]), (left[1], right[1]), (left[0], right[0])):
            values = {
                "a": np.full((7, 70), a, form.left),
                "b": np.full((70, 19), b, form.right),
            }
            agree(kernel, tiling, values)


@pytest.mark.few(1)
@pytest.mark.parametrize("form", BY_NAME, ids=lambda f: f"{f.left} {f.right}")
def test_convolutions_of_every_form_equal_the_reference(form: Form) -> None:
    for h, c, o, size, step, pad in ((9, 3, 11, 3, 2, 1), (7, 8, 32, 3, 1, 1), (6, 5, 9, 2, 1, 0)):
        if is_float(form.left) and c % form.group:
            continue
        kernel = convolution(form, h, c, o, size, step, pad)
        agree(kernel, Tiling((("p", 2),), micro(form, 16)), arrays(kernel))


@pytest.mark.few(4)
@pytest.mark.parametrize("constant", [True, False], ids=["weights", "two inputs"])
@pytest.mark.parametrize("form", [f for f in BY_NAME if is_float(f.total)], ids=lambda f: f.right)
def test_nan_and_infinity_stay_in_their_rows_and_columns(form: Form, constant: bool) -> None:
    k = 11 + 11 % form.group
    if not has_form(form, k, constant):
        pytest.skip("only constants have this form")
    kernel = product(form, 9, k, 35, constant)
    values = arrays(kernel)
    values["a"][2, 3], values["a"][5, 1] = np.nan, np.inf
    if is_float(form.right):
        values["b"][4, 7], values["b"][0, 33] = -np.inf, np.nan
    want = evaluate_kernel(kernel, [values["a"], values["b"]], {})
    got = run_kernel(kernel, Tiling((("i", 7),), micro(form, 16)), values)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    assert np.isnan(got).any() and not np.isnan(got).all()
