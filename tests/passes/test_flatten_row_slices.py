"""Row slices between two reshapes: the shift of relative positions is one affine load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from explorer.ir.affine import Affine, affine, var
from explorer.ir.kernel import Axis, reads
from explorer.ir.program import Program
from explorer.passes.copies.copies import fold_copies
from explorer.passes.copies.index_maps import Ranges, Split, divide
from tests.passes.programs import Shape, keeps_values, kernels, legalized, views

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
