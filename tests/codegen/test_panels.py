"""Where panels begin, and what is asked for ahead while register tiles run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer
import explorer.np as enp
from explorer.codegen.build import print_kernel
from explorer.errors import BadOption
from explorer.ir.affine import Affine, var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import ShapeEnv, SymbolBound, symbol
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec
from explorer.ops.interpreter.evaluate import evaluate_kernel
from tests.codegen.cases import arrays, conv, linear
from tests.codegen.running import run_kernel
from tests.tile.programs import HERE


def source(m: int, k: int, n: int) -> str:
    case = linear(m, k, n, "relu", {})
    return print_kernel(case.kernel, Tiling((), Micro(8, 2)), ShapeEnv(), HERE)[0]


def test_rows_are_asked_for_where_all_panels_stay_in_l1() -> None:
    assert "_pace = 32" in source(64, 64, 64)


def test_the_next_panel_is_asked_for_where_they_do_not() -> None:
    text = source(64, 512, 64)
    assert "_pace = 32" not in text and "_ahead = _panel" in text


@pytest.mark.parametrize("m", [8, 9, 17, 40])
def test_what_is_asked_for_past_the_end_is_not_read(m: int) -> None:
    case = linear(m, 32, 24, "relu", {})
    values = arrays(case)
    want = evaluate_kernel(case.kernel, [values[n] for n in case.kernel.inputs], {})
    got = run_kernel(case.kernel, Tiling((), Micro(8, 2)), values)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("k", [1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("m", [4, 64])  # the panel that comes next in few hints, and in many
def test_hints_for_four_steps_leave_no_step_out(m: int, k: int) -> None:
    case = linear(m, k, 48, "relu", {})
    values = arrays(case)
    want = evaluate_kernel(case.kernel, [values[n] for n in case.kernel.inputs], {})
    got = run_kernel(case.kernel, Tiling((), Micro(4, 3, 8)), values)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@explorer.trace
def scores(
    q: explorer.tensor("float32", "m", 32),  # type: ignore[valid-type]
    k: explorer.tensor("float32", "n", 32),  # type: ignore[valid-type]
    mask: explorer.tensor("float32", "m", "n"),  # type: ignore[valid-type]
) -> object:
    return q @ enp.transpose(k, (1, 0)) * 0.5 + mask


def test_an_epilogue_whose_rows_lie_a_run_time_step_apart_stays_in_registers() -> None:
    compiled = explorer.compile(scores)
    (kernel,) = compiled.kernels
    assert "contract0_full" in kernel.source and "(None, 1)" in kernel.source
    draw = np.random.default_rng(0).standard_normal
    for m, n in ((1, 1), (4, 16), (5, 17), (16, 33), (67, 64)):
        q, k, mask = (draw(s).astype("float32") for s in ((m, 32), (n, 32), (m, n)))
        (got,) = compiled.run(q, k, mask).values()
        np.testing.assert_allclose(got, q @ k.T * np.float32(0.5) + mask, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("residual", "edges"), [(False, False), (True, True)])
def test_tiles_of_an_image_of_any_size_are_stored_from_registers(
    residual: bool, edges: bool
) -> None:
    """Their rows lie in no one distance from each other. A last tile that is not full computes its
    last row again, but where it reads what may be what it writes.
    """
    env = ShapeEnv((SymbolBound("h"), SymbolBound("w")))
    sides: Any = symbol("h"), symbol("w")
    case = conv(*sides, 16, 16, 3, 1, 1)
    kernel = case.kernel
    if residual:
        first, last = kernel.computes
        both = Apply("add", (Read("t", last.target), Read("x", last.target)))
        kernel = replace(kernel, computes=(first, replace(last, expr=both)))
    tiling = Tiling((("e1", 3), ("e2", 5)), Micro(4, 2))
    text = print_kernel(kernel, tiling, env, HERE)[0]
    assert "('table', 1)" in text and ("for _r in range" in text) == edges
    for h, w in ((1, 1), (3, 5), (4, 11), (7, 2)):
        values = arrays(replace(case, sizes={"h": h, "w": w}))
        want = evaluate_kernel(kernel, [values[n] for n in kernel.inputs], {"h": h, "w": w})
        got = run_kernel(kernel, tiling, values, {"h": h, "w": w}, env)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def columns_of(product: str, *starts: int | None) -> Kernel:
    """y[i, j] is a sum of t[i, j + start], or without j of t[i, start]; t is a product."""
    m, k, n, wide = 5, 12, 32, 64
    i, d, j = Axis("i", m), Axis("d", k), Axis("j", n)
    x, w = Read("x", (var("i"), var("d"))), Read("w", (var("d"), var("c")))
    t = Compute("t", (i, Axis("c", wide)), Apply("mul", (x, w)), (d,), "sum")
    last = var("j") if product == "moved" else Affine()
    a, b = (Read("t", (var("i"), last + (start or 0))) for start in (*starts, 0)[:2])
    axes = (i, j) if product == "moved" else (i,)
    y = Compute("y", axes, Apply("add", (a, b)))
    shapes = {"x": (m, k), "w": (k, wide), "t": (m, wide), "y": tuple(a.extent for a in axes)}
    specs = tuple(TensorSpec(name, s) for name, s in shapes.items())
    return Kernel("columns", specs, (t, y), ("x", "w"), ("y",), frozenset({"w"}))


@pytest.mark.parametrize(
    ("kernel", "tile"),
    [
        (columns_of("fixed", 7, 9), {}),
        (columns_of("fixed", 7, 9), {"i": 2}),
        (columns_of("moved", 7, 15), {"i": 3}),
        (columns_of("moved", 0, 16), {"j": 32}),
    ],
)
def test_columns_may_begin_anywhere_in_packed_weights(kernel: Kernel, tile: dict[str, int]) -> None:
    rng = np.random.default_rng(0)
    values = {n: rng.standard_normal(kernel.shape(n)).astype(np.float32) for n in "xw"}
    got = run_kernel(kernel, Tiling(tuple(tile.items()), Micro(4, 2)), values)
    want = evaluate_kernel(kernel, [values["x"], values["w"]], {})
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_tiles_that_begin_within_a_panel_are_refused() -> None:
    """Columns j .. j + 24 of tiles of 8: a panel each, but three of four begin within one."""
    kernel, micro = columns_of("moved", 24), Micro(4, 2)
    with pytest.raises(BadOption, match="does not begin at a packed panel"):
        print_kernel(kernel, Tiling((("j", 8),), micro), ShapeEnv(), HERE)


@explorer.trace
def sequences(
    x: explorer.tensor("float32", "batch", "m", 32),  # type: ignore[valid-type]
    w: explorer.tensor("float32", 32, 48),  # type: ignore[valid-type]
    rest: explorer.tensor("float32", "batch", "m", 48),  # type: ignore[valid-type]
) -> object:
    return enp.maximum(x @ w + rest, 0.0)


@pytest.mark.parametrize(("batch", "m"), [(1, 1), (2, 5), (3, 16), (1, 131)])
def test_an_epilogue_on_rows_of_one_batch_stays_in_registers(batch: int, m: int) -> None:
    (binding,) = explorer.compile(sequences, until="WELDED").program.kernel_calls
    kernel = binding.expr.kernel
    first, second, _ = (a.name for a in kernel.computes[-1].axes)
    tiling = Tiling(((first, 1), (second, 16)), Micro(8, 2))
    assert "contract0_full" in print_kernel(kernel, tiling, ShapeEnv(), HERE)[0]
    draw = np.random.default_rng(0).standard_normal
    shapes = ((batch, m, 32), (32, 48), (batch, m, 48))
    x, w, rest = (draw(s).astype("float32") for s in shapes)
    given = dict(zip(kernel.inputs, (x, w, rest), strict=True))
    got = run_kernel(kernel, tiling, given, {"batch": batch, "m": m})
    want = np.maximum(x @ w + rest, 0)
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-4, atol=1e-5)


def filters_gradient(inputs: int, outputs: int, side: int) -> explorer.Compilation:
    """What a convolution's filters get, of a batch of 5 images."""
    shapes = ((5, inputs, side, side), (outputs, inputs, 3, 3), (5, outputs, side, side))
    x, w, g = (explorer.tensor("float32", *shape) for shape in shapes)
    loss = explorer.grad(lambda w, x, g: (enp.conv(x, w, padding=1) * g).sum())
    return explorer.compile(explorer.trace(lambda x, w, g: loss(w, x, g))(x, w, g))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("inputs", "outputs", "side"), [(64, 64, 2), (67, 33, 3), (128, 48, 1), (40, 96, 5)]
)
def test_sums_that_lie_nearer_along_rows_are_stored_column_by_column(
    inputs: int, outputs: int, side: int
) -> None:
    compiled = filters_gradient(inputs, outputs, side)
    assert any("_at0 = " in kernel.source for kernel in compiled.kernels)
    draw = np.random.default_rng(0).standard_normal
    x, w, g = (draw(t.shape).astype("float32") for t in compiled.model.inputs.values())
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).astype("float64")
    want = np.empty(w.shape)
    for i in range(3):
        for j in range(3):
            seen = wide[:, :, i : i + side, j : j + side]
            want[:, :, i, j] = np.einsum("noyx,ncyx->oc", g, seen)
    (got,) = compiled.run(x, w, g).values()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
