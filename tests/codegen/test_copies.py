"""Copies: rows that are looked up, rows that are short, and transposes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.codegen.build import build_kernel, print_kernel
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, SymbolBound, symbol
from explorer.ir.dtypes import numpy_dtype
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec, at
from explorer.ops.interpreter.evaluate import evaluate_kernel
from tests.codegen.running import run_kernel
from tests.tile.programs import HERE


def gather(rows: int, extent: int, inner: tuple[int, ...], dtype: str = "float32") -> Kernel:
    """`y[i, ...] = x[index[i], ...] + z[index[i] + 1 clipped, ...]`."""
    i, rest = Axis("i", rows), tuple(Axis(f"j{n}", e) for n, e in enumerate(inner))
    index = Read("index", (var("i"),))
    after = Apply("add", (index, Read("one", (var("i"),))))
    names = tuple(var(a.name) for a in rest)
    both = Apply("add", (Read("x", (index, *names)), Read("x", (after, *names))))
    specs = (
        TensorSpec("x", (extent, *inner), dtype),
        TensorSpec("index", (rows,), "int64"),
        TensorSpec("one", (rows,), "int64"),
        TensorSpec("y", (rows, *inner), dtype),
    )
    compute = Compute("y", (i, *rest), both)
    return Kernel("gather", specs, (compute,), ("x", "index", "one"), ("y",))


@pytest.mark.parametrize("inner", [(), (1,), (7,), (64,), (5, 33), (2, 3, 40), (600,)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_rows_that_are_looked_up_equal_the_reference(inner: tuple[int, ...], dtype: str) -> None:
    kernel = gather(9, 13, inner, dtype)
    rng = np.random.default_rng(3)
    values = {
        "x": (10 * rng.standard_normal((13, *inner))).astype(dtype),
        "index": rng.integers(0, 13, 9),
        "one": np.ones(9, np.int64),
    }
    values["index"][4] = 12  # one beyond it there is nothing: the last row is taken
    want = evaluate_kernel(kernel, [values[n] for n in kernel.inputs], {})
    np.testing.assert_allclose(run_kernel(kernel, Tiling((("i", 4),)), values), want, rtol=1e-6)


def test_a_row_is_looked_up_once() -> None:
    source = build_kernel(gather(9, 13, (700,)), Tiling((("i", 4),)), ShapeEnv(), HERE).source
    lines = [line.strip() for line in source.splitlines()]
    inner = next(n for n, line in enumerate(lines) if line.startswith("nest0("))
    assert not any("ld_int64" in line for line in lines[inner:])
    assert sum(line.startswith("_found") for line in lines[:inner]) == 2


@pytest.mark.few(8)
@pytest.mark.parametrize("row", [1, 2, 15, 16, 17, 64, 129, 512, 513])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16", "bool"])
def test_short_rows_are_copied_whole(row: int, dtype: str) -> None:
    i, j, k = Axis("i", 3), Axis("j", 5), Axis("k", row)
    specs = (TensorSpec("x", (5, 3, row), dtype), TensorSpec("y", (3, 5, row), dtype))
    turned = Compute("y", (i, j, k), at("x", (j, i, k)))
    kernel = Kernel("heads", specs, (turned,), ("x",), ("y",))
    x = (4 * np.random.default_rng(1).standard_normal((5, 3, row))).astype(dtype)
    got = run_kernel(kernel, Tiling((("i", 2),)), {"x": x})
    np.testing.assert_array_equal(got, x.transpose(1, 0, 2))


@pytest.mark.parametrize("rows", [1, 5, 9])
def test_rows_that_are_looked_up_may_be_folded_row_by_row(rows: int) -> None:
    kernel = gather(rows, 13, (5, 64))
    i, j, k = kernel.computes[0].axes
    reduced = Compute("s", (i, j), at("t", (i, j, k)), (k,), "sum")
    minus = Apply("sub", (at("t", (i, j, k)), at("s", (i, j))))
    shape = (rows, 5, 64)
    specs = (*kernel.tensors, TensorSpec("t", shape), TensorSpec("s", shape[:2]))
    computes = (replace(kernel.computes[0], out="t"), reduced, Compute("y", (i, j, k), minus))
    kernel = replace(kernel, tensors=specs, computes=computes)
    rng = np.random.default_rng(5)
    values: dict[str, np.ndarray] = {
        "x": rng.standard_normal((13, 5, 64)).astype(np.float32),
        "index": rng.integers(0, 13, rows),
        "one": np.ones(rows, np.int64),
    }
    want = evaluate_kernel(kernel, [values[n] for n in kernel.inputs], {})
    got = run_kernel(kernel, Tiling(((i.name, 2), (j.name, 3))), values)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "rows, columns", [(1, 40), (15, 17), (16, 16), (17, 33), (40, 100), (64, 7), (130, 70)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16"])
def test_axes_are_swapped_in_blocks_that_may_lie_over_each_other(
    rows: int, columns: int, dtype: str
) -> None:
    b, i, j = Axis("b", 2), Axis("i", rows), Axis("j", columns)
    specs = (TensorSpec("x", (2, columns, rows), dtype), TensorSpec("y", (2, rows, columns), dtype))
    turned = Compute("y", (b, i, j), at("x", (b, j, i)))
    kernel = Kernel("turned", specs, (turned,), ("x",), ("y",))
    x: np.ndarray = np.random.default_rng(1).integers(-99, 99, (2, columns, rows)).astype(dtype)
    tiles: list[dict[str, int]] = [{"b": 1}, {"i": 16}, {"i": 24, "j": 33}]
    for tile in tiles:
        got = run_kernel(kernel, Tiling(tuple(tile.items())), {"x": x})
        np.testing.assert_array_equal(got, x.transpose(0, 2, 1))


@pytest.mark.parametrize("size", [(8, 2), (5, 3), (1, 1), (1, 9), (0, 4)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_tile_that_lies_in_the_padding_alone_copies_nothing(
    size: tuple[int, int], turned: bool
) -> None:
    env = ShapeEnv((SymbolBound("n", 0, 64), SymbolBound("m", 0, 64)))
    n, m = symbol("n"), symbol("m")
    i, j = Axis("i", n + 3), Axis("j", m + 9)
    read = Read("x", (var("j") - 1, var("i") - 1) if turned else (var("i") - 1, var("j") - 1), 7.0)
    shape = (m, n) if turned else (n, m)
    specs = (TensorSpec("x", shape), TensorSpec("y", (i.extent, j.extent)))
    kernel = Kernel("pad", specs, (Compute("y", (i, j), read),), ("x",), ("y",))
    rows, columns = size
    x = np.random.default_rng(2).standard_normal(size).astype(np.float32)
    want = np.pad(x, ((1, 2), (1, 8)), constant_values=7)
    given = {"x": np.ascontiguousarray(x.T) if turned else x}
    got = run_kernel(kernel, Tiling((("i", 2), ("j", 4))), given, {"n": rows, "m": columns}, env)
    np.testing.assert_array_equal(got, want)


DTYPES = ("bool", "uint8", "int16", "float16", "bfloat16", "int32", "float32", "int64", "float64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_turned_copies_move_every_bit(dtype: str) -> None:
    for h, w in ((33, 19), (16, 16), (7, 40), (1, 17), (64, 3)):
        axes = (Axis("i", w), Axis("j", h))
        read = Read("x", (var("j"), var("i")))
        specs = (TensorSpec("x", (h, w), dtype), TensorSpec("y", (w, h), dtype))
        kernel = Kernel("turn", specs, (Compute("y", axes, read),), ("x",), ("y",))
        tiling = Tiling((("i", 20),))
        count = numpy_dtype(dtype).itemsize * h * w
        bits = np.random.default_rng(0).integers(0, 256, count).astype(np.uint8)
        x = (bits & 1 if dtype == "bool" else bits).view(numpy_dtype(dtype)).reshape(h, w)
        got = run_kernel(kernel, tiling, {"x": x})
        np.testing.assert_array_equal(
            got.view(np.uint8), np.ascontiguousarray(x.T).view(np.uint8), strict=True
        )
    assert "turn" in print_kernel(kernel, tiling, ShapeEnv(), HERE)[0]
