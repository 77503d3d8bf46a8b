"""Joining slices of one tensor, and row slices that are then reshaped as slices of one flat dim."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from explorer.ir.affine import Affine, affine, var
from explorer.ir.calls import KernelCall, View
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Axis, reads
from explorer.ir.program import Program
from explorer.passes.random_inputs import random_inputs
from explorer.relax import legalize
from explorer.transforms.copies.copies import fold_copies
from explorer.transforms.copies.index_maps import Ranges, Split, divide
from tests.codegen.running import run_kernel
from tests.transforms.programs import Shape, keeps_values, kernels, legalized, views
from tests.transforms.recurrent import BATCH, Net


def cut(net: Net, x: str, axis: int, places: list[int]) -> list[str]:
    """The slices between the places."""
    axes = net.constant("axis", [axis])
    return [
        net.op("Slice", x, net.constant(f"p{a}", [a]), net.constant(f"p{b}", [b]), axes)
        for a, b in pairwise(places)
    ]


def joined(
    shape: tuple[object, ...], axis: int, places: list[int], *, turned: bool = False
) -> Program:
    """Slices of an input that are joined along the first dim, and their product by a matrix."""
    net = Net()
    parts = cut(net, net.input("x", *shape), axis, places)
    whole = net.op("Concat", *(reversed(parts) if turned else parts), axis=0)
    return keeps_values(
        fold_copies, legalize(net.program(net.op("MatMul", whole, net.weight("w", 4, 3))))
    )


@pytest.mark.parametrize("places", [[0, 1, 2, 3], [0, 2, 3], [1, 2, 3]])
def test_neighbouring_rows_are_the_tensor_or_a_part_of_it(places: list[int]) -> None:
    after = joined((3, 4), 0, places)
    assert kernels(after) == ["matmul"]
    assert views(after) == 0


def test_steps_of_a_batch_are_read_where_they_lie() -> None:
    after = joined((2, 3, 4), 1, [0, 1, 2, 3])
    assert kernels(after) == ["matmul"]


def test_rows_backwards_are_read_backwards() -> None:
    after = joined((3, 4), 0, [0, 1, 2, 3], turned=True)
    assert kernels(after) == ["matmul"]
    (binding,) = after.main.body
    assert isinstance(binding.expr, KernelCall)
    x, w = random_inputs(after)["x"], after.constants["w"].array
    y = run_kernel(binding.expr.kernel, Tiling(), {"a": x, "b": w})
    np.testing.assert_allclose(y, x[::-1] @ w, rtol=1e-5)


def test_slices_of_a_symbolic_batch_are_one_copy_at_most() -> None:
    net = Net()
    parts = net.split(net.input("x", 3 * BATCH, 4), 3, 0)
    y = net.op("MatMul", net.op("Concat", *parts, axis=0), net.weight("w", 4, 3))
    z = net.op("Tanh", net.input("z", BATCH, 1))
    after = keeps_values(fold_copies, legalize(net.program(y, z)))
    assert kernels(after) == ["matmul", "tanh"]


def test_a_join_of_two_tensors_stays() -> None:
    net = Net()
    x, y = net.input("x", 2, 4), net.input("y", 2, 4)
    parts = [*net.split(x, 2, 0), *net.split(y, 2, 0)]
    whole = net.op("Concat", *parts, axis=0)
    after = keeps_values(fold_copies, legalize(net.program(net.op("Tanh", whole))))
    (join, *_) = after.main.body
    assert isinstance(join.expr, KernelCall | View) and "concat" in kernels(after)


def test_copies_on_the_way_to_a_join_are_named_by_it(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Reshape", ["t", "tall"], ["a"]),
        helper.make_node("Reshape", ["a", "flat"], ["b"]),
        helper.make_node("Concat", ["b", "b"], ["y"], axis=0),
    ]
    shapes = {"tall": np.array([3, 2, 1], np.int64), "flat": np.array([3, 2], np.int64)}
    before = legalized(tmp_path, nodes, {"x": (2, 3)}, ["y"], shapes)
    assert kernels(keeps_values(fold_copies, before)) == ["concat"]


def test_a_compute_that_copies_what_another_made_joins_nothing() -> None:
    net = Net()
    (part,) = cut(net, net.input("x", 1, 1, 6), 2, [1, 5])
    pool = net.op("LpPool", part, kernel_shape=(2,), p=1)  # |x| summed, then its first root
    after = keeps_values(fold_copies, legalize(net.program(pool)))
    assert kernels(after) == ["lp_pool"]


node = helper.make_node


def shifted(tmp_path: Path, shape: Shape, t: int) -> Program:
    """Scores by distance -> scores by place (Dai and others 2019, appendix B), and a sum."""
    nodes = [
        node("Pad", ["x", "pads", "zero"], ["a"]),
        node("Reshape", ["a", "tall"], ["b"]),
        node("Slice", ["b", "one", "end", "rows"], ["c"]),
        node("Reshape", ["c", "wide"], ["d"]),
        node("Slice", ["d", "none", "width", "columns"], ["e"]),
        node("Add", ["e", "z"], ["y"]),
    ]
    constants: dict[str, np.ndarray] = {
        "pads": np.array([0, 0, 0, 1, 0, 0, 0, 0], np.int64),
        "zero": np.array(0, np.float32),
        "tall": np.array([0, 3, 2 * t, t], np.int64),
        "wide": np.array([0, 3, t, 2 * t - 1], np.int64),
        "one": np.array([1], np.int64),
        "none": np.array([0], np.int64),
        "end": np.array([2 * t], np.int64),
        "width": np.array([t], np.int64),
        "rows": np.array([2], np.int64),
        "columns": np.array([3], np.int64),
    }
    given: dict[str, Shape] = {"x": (*shape, t, 2 * t - 1), "z": (*shape, t, t)}
    return legalized(tmp_path, nodes, given, ["y"], constants)


@pytest.mark.parametrize(("lead", "t"), [((2, 3), 5), (("batch", 3), 8), ((1, 3), 2), ((2, 3), 1)])
def test_scores_by_distance_are_read_where_they_lie(tmp_path: Path, lead: Shape, t: int) -> None:
    after = keeps_values(fold_copies, shifted(tmp_path, lead, t))
    if t > 2:  # of fewer, the rows have the extent of the heads
        assert kernels(after) == ["add"] and views(after) == 0
        (binding,) = after.main.body
        (c,) = binding.expr.kernel.computes  # type: ignore[union-attr]
        assert all(r.fill is None for r in reads(c.expr))


def test_a_slice_of_columns_keeps_its_rows(tmp_path: Path) -> None:
    nodes = [
        node("Slice", ["x", "one", "end", "columns"], ["c"]),
        node("Reshape", ["c", "shape"], ["d"]),
        node("Neg", ["d"], ["y"]),
    ]
    constants = {
        "one": np.array([1], np.int64),
        "end": np.array([7], np.int64),
        "columns": np.array([1], np.int64),
        "shape": np.array([4, 9], np.int64),
    }
    keeps_values(fold_copies, legalized(tmp_path, nodes, {"x": (6, 7)}, ["y"], constants))


@pytest.mark.parametrize("by", [5, 8, 64])
def test_a_step_of_one_less_than_the_divisor_is_one_whole_and_one_back(by: int) -> None:
    half = by // 2
    extents = (Axis("k", half), Axis("l", half))
    index = affine({"k": by - 1, "l": 1}, half)
    found = divide(index, by, Ranges({a.name: a.extent for a in extents}))
    assert found == (var("k"), affine({"k": -1, "l": 1}, half))
    for k in range(half):
        for low in range(half):
            assert divmod((by - 1) * k + low + half, by) == (k, low - k + half)


def test_what_may_leave_a_row_is_not_divided() -> None:
    extents = {"k": 4, "l": 8}
    found = divide(affine({"k": 7, "l": 1}), 8, Ranges(extents))
    assert found is None or isinstance(found, Split)
    assert divide(Affine((), 9), 8, Ranges(extents)) == (Affine((), 1), Affine((), 1))
