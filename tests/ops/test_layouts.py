"""Operators that move elements, read at data, or make tensors from shapes, by every stage."""

from pathlib import Path

import numpy as np
import pytest

from tests.ops.one_operator import Case, check

random = np.random.default_rng(3)
HUGE = np.iinfo(np.int64).max


def r(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def i(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def slicing(
    starts: list[int], ends: list[int], axes: list[int], steps: list[int], **more: object
) -> Case:
    parts = [i(*starts), i(*ends), i(*axes), i(*steps)]
    return Case("Slice", [r(3, 6, 5), *parts], {}, (1, 2, 3, 4), **more)  # type: ignore[arg-type]


MOVES = [
    Case("Reshape", [r(3, 4, 5), i(4, -1)], known=(1,), free=(3,)),
    Case("Reshape", [r(3, 4, 5), i(0, 2, -1, 5)], known=(1,), free=(3,)),
    Case("Reshape", [r(3, 4, 5), i(-1, 0)], known=(1,)),
    Case("Reshape", [np.zeros((0, 4), np.float32), i(4, 0)], {"allowzero": 1}, (1,), note="empty"),
    Case("Flatten", [r(3, 4, 5)], free=(3, 5)),
    Case("Flatten", [r(3, 4, 5)], {"axis": 0}),
    Case("Flatten", [r(3, 4, 5)], {"axis": -1}),
    Case("Flatten", [r(3, 4, 5)], {"axis": 3}),
    Case("Squeeze", [r(1, 3, 1, 5)], free=(3,), library=True),
    Case("Squeeze", [r(1, 3, 1, 5), i(-2)], known=(1,)),
    Case("Squeeze", [r(1, 3, 1, 5)], {"axes": [0]}, opset=9),
    Case("Unsqueeze", [r(3, 5), i(0, -1)], known=(1,), free=(3,)),
    Case("Unsqueeze", [r(3, 5)], {"axes": [1, 2]}, opset=9),
    Case("Transpose", [r(3, 4, 5)], free=(3, 5)),
    Case("Transpose", [r(3, 4, 5)], {"perm": [1, 0, 2]}, free=(4,)),
    Case("Transpose", [r(3, 1, 5)], {"perm": [1, 0, 2]}, note="nothing-moves"),
    Case("Expand", [r(3, 1, 5), i(2, 1, 4, 1)], known=(1,), free=(3, 5)),
    Case("Expand", [r(1, 5), i(1, 1, 1)], known=(1,)),
    Case("Tile", [r(3, 1, 5), i(2, 3, 1)], known=(1,), free=(3, 5)),
    Case("Concat", [i(7)[None], i(1, 2, 3)[None]], {"axis": -1}, (0, 1), note="of known elements"),
    Case("Concat", [r(2, 3), r(2, 1), r(2, 4)], {"axis": 1}, free=(2, 3)),
    Case("Concat", [r(2, 3), r(1, 3)], {"axis": -2}),
    Case("Concat", [r(2, 3), np.zeros((2, 0), np.float32)], {"axis": 1}, note="empty"),
    Case("Concat", [r(2, 3)], {"axis": 0}, note="single"),
    Case("Split", [r(2, 6, 3), i(1, 3, 2)], {"axis": 1}, (1,), (2, 3), outputs=3),
    Case("Split", [r(5, 2)], {"num_outputs": 3}, outputs=3, note="uneven"),
    Case("Split", [r(6, 2)], {"axis": -2}, opset=13, outputs=2, note="outermost"),
    Case("Split", [r(2, 6)], {"axis": 1, "split": [2, 4]}, opset=11, outputs=2),
    Case("DepthToSpace", [r(2, 8, 3, 4)], {"blocksize": 2}, free=(3, 4)),
    Case("DepthToSpace", [r(2, 8, 3, 4)], {"blocksize": 2, "mode": "CRD"}),
    Case("SpaceToDepth", [r(2, 3, 4, 6)], {"blocksize": 2}, free=(2,)),
    slicing([1], [3], [1], [1], free=(3, 5)),
    slicing([-2], [HUGE], [1], [1], free=(6,)),
    slicing([1, 0], [HUGE, -1], [0, 2], [1, 2], free=(3,)),
    slicing([-1], [-HUGE], [1], [-1], free=(6,)),
    slicing([4, 3], [0, -6], [1, 2], [-2, -1]),
    slicing([0], [9], [1], [4]),
    slicing([5], [2], [1], [1], note="empty"),
    slicing([1], [2], [0], [1], free=(6, 5), note="outermost"),
    Case("Slice", [r(4, 5)], {"starts": [1], "ends": [-1], "axes": [1]}, opset=9),
    Case("Pad", [r(3, 5), i(1, 0, 0, 2), np.array(0.5, np.float32)], known=(1, 2), free=(3, 5)),
    Case("Pad", [i(1, 2), i(1, 0), np.array(1 - 2**63)], known=(1, 2), note="with no float64"),
    Case("Pad", [r(3, 5), i(1, 0, 0, 2)], known=(1,)),
    Case("Pad", [r(3, 5), i(0, -1, 1, -2)], known=(1,), note="crop"),
    Case("Pad", [r(3, 5), i(2, 1), None, i(1)], {"mode": "reflect"}, (1, 3), (3,)),
    Case("Pad", [r(3, 5), i(1, 2, 0, 1)], {"mode": "edge"}, (1,), (5,)),
    Case("Pad", [r(3, 5)], {"pads": [0, 1, 1, 0], "value": 2.0}, opset=9),
    Case("Trilu", [r(2, 4, 5)], free=(2, 4)),
    Case("Trilu", [r(4, 5), np.array(-1)], {"upper": 0}, (1,), (5,)),
    Case("Trilu", [np.ones((3, 3), bool), np.array(1)], known=(1,)),
]
READS = [
    Case("Gather", [r(7, 5), i(3, -1, 0)], free=(5,)),
    Case("Gather", [r(7, 5), np.array([[1, 2], [-2, 0]], np.int32)], {"axis": 1}, free=(7,)),
    Case("Gather", [r(7, 5), i(3, 1)], known=(1,)),
    Case("Gather", [r(7, 5), np.array(-2)], known=(1,), note="one-row"),
    Case("Gather", [r(7, 5), np.array(2)], {"axis": 1}, (1,), (7,), note="one-column"),
    Case("Gather", [r(7, 5), np.array(2)], note="scalar"),
    Case("GatherElements", [r(4, 5), random.integers(-4, 4, (3, 5))], free=(5,)),
    Case("GatherElements", [r(4, 5), random.integers(-5, 5, (4, 2))], {"axis": 1}),
    Case("GatherND", [r(4, 5, 6), random.integers(-4, 4, (3, 2))], free=(3, 6)),
    Case(
        "GatherND", [r(2, 5, 6), random.integers(0, 5, (2, 3, 1))], {"batch_dims": 1}, free=(2, 6)
    ),
    Case("GatherND", [r(2, 5, 6), i(-5, -3, -1, -2).reshape(2, 2, 1)], {"batch_dims": 1}),
    Case(
        "OneHot",
        [np.array([[1, -1], [0, 9]]), np.array(4), np.array([2, 5], np.float32)],
        known=(1,),
    ),
    Case(
        "OneHot",
        [i(1, 0, 2), np.array([3]), np.array([0, 1], np.float32)],
        {"axis": 0},
        (1, 2),
        (3,),
    ),
]
MADE = [
    Case("Shape", [r(3, 4, 5)], free=(3,)),
    Case("Shape", [r(3, 4, 5)], {"start": -2, "end": 3}, free=(4,)),
    Case("Size", [r(3, 4, 5)], free=(3, 4)),
    Case("Range", [np.array(2), np.array(11), np.array(3)], known=(0, 1, 2)),
    Case("Range", [np.array(5), np.array(-4), np.array(-2)], known=(0, 1, 2)),
    Case(
        "Range",
        [np.array(0.5, np.float32), np.array(3, np.float32), np.array(0.7, np.float32)],
        known=(0, 1, 2),
        note="floats",
    ),
    Case("ConstantOfShape", [i(2, 3)], known=(0,)),
]
RESIZES = [
    Case(
        "Resize", [r(1, 2, 4, 5), None, np.array([1, 1, 2, 3], np.float32)], known=(2,), free=(2,)
    ),
    Case(
        "Resize",
        [r(1, 2, 4, 5), None, np.array([1, 1, 0.6, 1.5], np.float32)],
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        (2,),
    ),
    Case(
        "Resize",
        [r(1, 2, 4, 5), None, None, i(1, 2, 7, 3)],
        {"mode": "linear"},
        (3,),
        tolerance=1e-5,
    ),
    Case(
        "Resize",
        [r(1, 2, 4, 5), None, None, i(1, 2, 8, 9)],
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        (3,),
        tolerance=1e-5,
    ),
    Case(
        "Resize",
        [r(1, 2, 4, 5), None, np.array([1, 1, 2, 2], np.float32)],
        {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
        (2,),
        tolerance=1e-5,
    ),
    *(
        Case(
            "Resize",
            [r(1, 2, 2, 4), None, np.array([1, 1, *scales], np.float32)],
            {"mode": mode, "coordinate_transformation_mode": "pytorch_half_pixel"},
            (2,),
            tolerance=1e-5,
            note=f"{mode} to one, by {scales}",
        )
        for mode in ("linear", "cubic")
        for scales in ((0.7, 0.4), (0.5, 0.25))
    ),
    Case(
        "Resize",
        [r(1, 1, 3, 10), None, np.array([1, 1, 2, 0.7], np.float32)],
        {"mode": "linear"},
        (2,),
        tolerance=1e-5,
        note="by 0.7, which is less in float32",
    ),
    Case(
        "Upsample",
        [r(1, 2, 4, 5), np.array([1, 1, 2, 2], np.float32)],
        {"mode": "nearest"},
        (1,),
        opset=9,
    ),
    Case(
        "Resize",
        [r(1, 2, 4, 5), np.array([1, 1, 2, 2], np.float32)],
        {"mode": "nearest"},
        (1,),
        opset=10,
    ),
]


def ids(cases: list[Case]) -> list[str]:
    return [f"{n}-{c.name}" for n, c in enumerate(cases)]


@pytest.mark.parametrize("case", MOVES, ids=ids(MOVES))
def test_elements_are_moved_as_onnxruntime_moves_them(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", READS, ids=ids(READS))
def test_a_read_at_data_equals_onnxruntime(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", MADE, ids=ids(MADE))
def test_a_tensor_made_from_a_shape_equals_onnxruntime(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", RESIZES, ids=ids(RESIZES))
def test_a_resize_equals_onnxruntime(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
