"""What is made inside a tile and read past its border has room for the border, however it is
written and whatever reads it: tiles are interpreted element by element, and leave no buffer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.ir.affine import Affine, var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec, apply
from explorer.ir.kernels.normal import normalise
from explorer.ir.kernels.running import running
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.tile.interpret import Interpreter
from explorer.tile.lowering.lower import lower
from tests.examples import examples

WRITTEN = ("whole", "in rows", "in residues")


def bordered(
    length: int, written: str, reads: list[tuple[int, int]], folded: bool, results: int
) -> Kernel:
    """`t` is written as told; `y[i, c] = sum of t[step * i - start, c]`, zeros past its border."""
    channels = Axis("c", 3)
    computes = []
    if written == "whole":
        at = (var("p"), var("c"))
        made = apply("add", Read("x", at), 1.0)
        computes = [Compute("t", (Axis("p", length), channels), made)]
    elif written == "in rows":
        for n in range(length):
            row = (Affine((), n), var("c"))
            made = apply("add", Read("x", row), float(n))
            computes.append(Compute("t", (channels,), made, store=row))
    else:
        for n in range(min(2, length)):
            place = (var("p") * 2 + n, var("c"))
            axes = (Axis("p", (length + 1 - n) // 2), channels)
            computes.append(Compute("t", axes, apply("mul", Read("x", place), 2.0), store=place))
    loads = [Read("t", (var("i") * k - start, var("c")), 0.0) for k, start in reads]
    over = ()
    if folded:
        over = (Axis("r", 2),)
        loads = [Read("t", (r.index[0] + var("r"), var("c")), 0.0) for r in loads]  # type: ignore[operator]
    total: Apply | Read = loads[0]
    for load in loads[1:]:
        total = Apply("add", (total, load))
    y = Compute("y", (Axis("i", results), channels), total, over, "sum" if over else None)
    shapes = {"x": (length, 3), "t": (length, 3), "y": (results, 3)}
    tensors = tuple(TensorSpec(n, s) for n, s in shapes.items())
    return Kernel("bordered", tensors, (*computes, y), ("x",), ("y",))


def check(kernel: Kernel, tile: int) -> None:
    x = np.random.default_rng(3).standard_normal(kernel.shape("x")).astype(np.float32)
    out = np.full(kernel.shape("y"), np.nan, np.float32)
    last = kernel.computes[-1]
    if running(kernel, last):  # a window as long as its results is one, and no tile cuts it
        tile = int(last.axes[0].extent)
    run = Interpreter(lower(kernel, Tiling((("i", tile),))), {"x": x, "y": out}, {})
    run.run()
    np.testing.assert_allclose(
        run.arrays["y"].reshape(out.shape), evaluate_kernel(kernel, [x], {}), rtol=1e-6
    )


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("tile", [1, 2, 8])
def test_a_tile_past_the_border_has_room_for_it(written: str, length: int, tile: int) -> None:
    check(bordered(length, written, [(1, 1), (1, 0)], False, length + 2), tile)


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_an_exclusive_fold_has_room_for_the_element_that_it_leaves_out(
    written: str, length: int
) -> None:
    """`y[i] = sum of t[j] with j > i`: t's first row is passed over, too."""
    kernel = bordered(length, written, [(1, -1)], True, length)
    step = Axis("r", length)
    last = replace(kernel.computes[-1], reduce=(step,))
    kernel = replace(kernel, computes=(*kernel.computes[:-1], last))
    assert running(kernel, last)
    check(kernel, length)


@settings(max_examples=examples(150))
@given(
    st.integers(1, 6),
    st.sampled_from(WRITTEN),
    st.lists(st.tuples(st.sampled_from([-1, 1, 2, 3]), st.integers(-2, 4)), min_size=1, max_size=3),
    st.booleans(),
    st.integers(1, 7),
    st.integers(1, 4),
    st.booleans(),
)
def test_any_reads_past_a_border_find_what_the_definition_says(
    length: int,
    written: str,
    reads: list[tuple[int, int]],
    folded: bool,
    results: int,
    tile: int,
    normal: bool,
) -> None:
    kernel = bordered(length, written, reads, folded, results)
    check(normalise(kernel) if normal else kernel, tile)
