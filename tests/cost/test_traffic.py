"""Modelled traffic: Welder's numbers, and what must hold for every tile."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.cost.footprint import ALIGN_BYTES, footprint, place_best_fit
from explorer.cost.traffic import tile_count, traffic
from explorer.ir.affine import var
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec, apply, at
from explorer.ir.kernels.regions import propagate
from explorer.ops.interpreter.evaluate import evaluate_kernel

MIB = 1 << 20
ROWS, DEPTH, COLUMNS = 98304, 64, 128
ROW, COLUMN, SUM = Axis("i", ROWS), Axis("j", COLUMNS), Axis("k", DEPTH)


def product(out: str) -> Compute:
    return Compute(
        out, (ROW, COLUMN), apply("mul", at("a", (ROW, SUM)), at("b", (SUM, COLUMN))), (SUM,), "sum"
    )


def softmax(x: str) -> tuple[Compute, ...]:
    row, whole = (ROW,), (ROW, Axis("l", COLUMNS))
    return (
        Compute("top", row, at(x, whole), whole[1:], "max"),
        Compute("e", whole, apply("exp", apply("sub", at(x, whole), at("top", row)))),
        Compute("total", row, at("e", whole), whole[1:], "sum"),
        Compute("y", whole, apply("div", at("e", whole), at("total", row))),
    )


A, B = TensorSpec("a", (ROWS, DEPTH)), TensorSpec("b", (DEPTH, COLUMNS))
T, Y = TensorSpec("t", (ROWS, COLUMNS)), TensorSpec("y", (ROWS, COLUMNS))
INNER = (TensorSpec("top", (ROWS,)), TensorSpec("e", (ROWS, COLUMNS)), TensorSpec("total", (ROWS,)))
FUSED = Kernel("fused", (A, B, T, *INNER, Y), (product("t"), *softmax("t")), ("a", "b"), ("y",))
MATMUL = Kernel("matmul", (A, B, T), (product("t"),), ("a", "b"), ("t",))
SOFTMAX = Kernel("softmax", (T, *INNER, Y), softmax("t"), ("t",), ("y",))


@pytest.mark.parametrize(
    ("rows", "tile_bytes", "mib"),
    [(4, 35_840, 840), (16, 45_056, 264), (32, 57_344, 168), (64, 81_920, 120)],
)
def test_matmul_and_softmax_move_what_the_paper_says(rows: int, tile_bytes: int, mib: int) -> None:
    found = traffic(FUSED, {"i": rows})
    assert found.tile_bytes == tile_bytes
    assert found.tiles == ROWS // rows
    assert found.total_bytes == mib * MIB


@pytest.mark.parametrize("rows", [1, 4, 16, 64, 1024])
def test_apart_they_move_96_mib_more_whatever_the_tile(rows: int) -> None:
    apart = sum(traffic(k, {"i": rows}).total_bytes for k in (MATMUL, SOFTMAX))
    assert apart - traffic(FUSED, {"i": rows}).total_bytes == 96 * MIB


def test_one_tile_moves_inputs_and_output_once() -> None:
    whole = traffic(FUSED, {})
    assert whole.tiles == 1
    assert whole.total_bytes == 4 * (ROWS * DEPTH + DEPTH * COLUMNS + ROWS * COLUMNS)


def test_part_of_a_row_counts_in_whole_lines() -> None:
    plain = traffic(MATMUL, {"i": 4, "j": 4})
    lines = traffic(MATMUL, {"i": 4, "j": 4}, line_bytes=128)
    assert plain.stored[0].bytes == 4 * 4 * 4
    assert lines.stored[0].bytes == 4 * 128
    assert lines.loaded[0].bytes == plain.loaded[0].bytes  # whole rows lie side by side


def convolutions(h: int, w: int, stride: int) -> Kernel:
    """Two 3x3 windows of sums, the second over the first, both padded."""
    y, x = Axis("y", -(-h // stride)), Axis("x", -(-w // stride))
    u, v = Axis("u", h), Axis("v", w)
    over = {n: (Axis(f"p{n}", 3), Axis(f"q{n}", 3)) for n in "12"}

    def window(tensor: str, n: str, a: Axis, b: Axis, step: int) -> Read:
        p, q = over[n]
        index = (var(a.name) * step + var(p.name) - 1, var(b.name) * step + var(q.name) - 1)
        return Read(tensor, index, 0.0)

    first = Compute("t", (u, v), window("a", "1", u, v, 1), over["1"], "sum")
    second = Compute("o", (y, x), window("t", "2", y, x, stride), over["2"], "sum")
    shapes = {"a": (h, w), "t": (h, w), "o": (y.extent, x.extent)}
    specs = tuple(TensorSpec(n, s) for n, s in shapes.items())
    return Kernel("two", specs, (first, second), ("a",), ("o",))


@given(st.integers(4, 14), st.integers(4, 14), st.integers(1, 2), st.data())
def test_a_tile_needs_no_more_than_its_propagated_region(
    h: int, w: int, stride: int, data: st.DataObject
) -> None:
    kernel = convolutions(h, w, stride)
    rows, columns = kernel.shape("o")
    assert isinstance(rows, int) and isinstance(columns, int)
    tile = {"y": data.draw(st.integers(1, rows)), "x": data.draw(st.integers(1, columns))}
    y0 = data.draw(st.integers(0, (rows - 1) // tile["y"])) * tile["y"]
    x0 = data.draw(st.integers(0, (columns - 1) // tile["x"])) * tile["x"]
    region = propagate(kernel, tile).tensors["a"]
    a = np.random.default_rng(0).standard_normal((h, w)).astype(np.float32)
    kept = np.zeros_like(a)
    box = []
    for interval, start, axis in zip(region, (y0, x0), "yx", strict=True):
        low = interval.lo.const + interval.lo.factor(f"t_{axis}") * start
        assert isinstance(low, int) and isinstance(interval.size, int)
        box.append(slice(max(0, low), low + interval.size))
    kept[tuple(box)] = a[tuple(box)]
    part = (slice(y0, y0 + tile["y"]), slice(x0, x0 + tile["x"]))
    whole, alone = (evaluate_kernel(kernel, [x], {})[part] for x in (a, kept))
    np.testing.assert_array_equal(whole, alone)


@given(st.integers(1, 200), st.integers(1, 200))
def test_tiles_cover_the_output(rows: int, columns: int) -> None:
    assert tile_count(MATMUL, {"i": rows, "j": columns}, {}) == -(-ROWS // rows) * -(
        -COLUMNS // columns
    )


def test_a_footprint_reuses_room_of_what_is_dead() -> None:
    found = footprint(FUSED, {"i": 16}, inner=True)
    sizes = {p.tensor: p.bytes for p in found.places}
    assert sizes == {"t": 8192, "top": 64, "e": 8192, "total": 64}
    assert found.bytes < sum(sizes.values()) + ALIGN_BYTES
    assert found.bytes >= 2 * 8192


lives = st.lists(
    st.tuples(st.integers(1, 4096), st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12
)


@given(lives)
def test_tiles_that_live_together_never_overlap(drawn: list[tuple[int, int, int]]) -> None:
    given_ = [(f"t{n}", size, min(a, b), max(a, b)) for n, (size, a, b) in enumerate(drawn)]
    placed = place_best_fit(given_)
    for p in placed:
        assert p.offset % ALIGN_BYTES == 0
        for q in placed:
            together = p is not q and p.first <= q.last and q.first <= p.last
            assert not together or p.offset + p.bytes <= q.offset or q.offset + q.bytes <= p.offset
    needed = max(sum(p.bytes for p in placed if p.first <= step <= p.last) for step in range(7))
    top = max(p.offset + p.bytes for p in placed)
    assert needed <= top <= sum(p.bytes for p in placed)


def test_region_shapes_stay_within_their_tensors() -> None:
    kernel = convolutions(8, 8, 1)
    found = traffic(kernel, {"y": 8, "x": 8})
    assert found.loaded[0].shape == (8, 8)
    assert prod(traffic(kernel, {"y": 2, "x": 2}).loaded[0].shape) == 36
