"""Reads between elements, windows put back, and pools of every kind, by every stage."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ops.one_operator import Case, check

random = np.random.default_rng(9)
F = np.float32


def x(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(F)


def grid(*shape: int) -> np.ndarray:
    return random.uniform(-1.4, 1.4, shape).astype(F)


AFFINE = [
    Case(
        "AffineGrid",
        [x(images, len(size), len(size) + 1), np.array([images, 3, *size])],
        {"align_corners": corners},
        known=known,
        free=free,
        opset=20,
    )
    for corners, images, size, known, free in (
        (0, 1, (3, 4), (1,), ()),
        (1, 1, (3, 4), (1,), (1,)),
        (0, 2, (2, 3, 4), (1,), (2,)),
        (1, 2, (5, 4), (), ()),
    )
]
GRID = [
    Case(
        "GridSample",
        [x(2, 3, 4, 5), grid(2, 3, 2, 2)],
        {"mode": mode, "padding_mode": padding, "align_corners": corners},
        opset=20,
        tolerance=2e-5,
        note=f"{mode}-{padding}-{corners}",
    )
    for mode, padding, corners in product(
        ("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)
    )
]
BOXES = np.array([[0, 0, 3, 4], [1.2, 0.5, 2.2, 3.5], [-2, -3, 9, 9]], F)
ROI: list[dict[str, Any]] = [
    {"sampling_ratio": 2, "output_height": 3, "output_width": 2},
    {"sampling_ratio": 1, "spatial_scale": 0.5, "output_height": 2, "output_width": 2},
    {
        "sampling_ratio": 3,
        "coordinate_transformation_mode": "output_half_pixel",
        "output_height": 2,
        "output_width": 3,
    },
]
WINDOWS = [
    Case("LpPool", [x(2, 3, 7)], {"kernel_shape": [3], "strides": [2], "p": 3}, free=(2,)),
    Case("LpPool", [x(1, 2, 5, 6)], {"kernel_shape": [2, 3], "pads": [1, 1, 0, 1]}),
    Case("GlobalLpPool", [x(2, 3, 4, 5)], {"p": 1}, free=(5,)),
    Case(
        "MaxPool",
        [x(2, 3, 6, 7)],
        {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]},
        outputs=2,
        note="places",
    ),
    Case(
        "MaxPool",
        [x(1, 2, 5, 6)],
        {"kernel_shape": [2, 2], "storage_order": 1},
        outputs=2,
        note="columns",
    ),
    Case(
        "MaxUnpool",
        [x(1, 2, 2, 2), np.array([0, 3, 9, 14, 17, 20, 26, 31]).reshape(1, 2, 2, 2)],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    Case(
        "Col2Im",
        [x(1, 12, 9), np.array([4, 5]), np.array([2, 3])],
        {},
        (1, 2),
        note="plain",
    ),
    Case(
        "Col2Im",
        [x(2, 8, 9), np.array([6, 5]), np.array([2, 2])],
        {"strides": [2, 2], "dilations": [1, 2], "pads": [0, 1, 0, 2]},
        (1, 2),
        note="strides",
    ),
    Case("Det", [x(2, 3, 3)], free=(2,), opset=11),
    Case("Det", [x(1, 1)], opset=11, note="one"),
    Case(
        "ConvTranspose",
        [x(1, 2, 4, 5), x(2, 3, 3, 2)],
        {"strides": [2, 3], "dilations": [2, 2], "pads": [1, 0, 2, 1]},
        tolerance=1e-5,
        note="dilated",
    ),
    Case(
        "ConvTranspose",
        [x(1, 2, 4, 5), x(2, 3, 3, 3)],
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        tolerance=1e-5,
        note="same",
    ),
    Case(
        "ConvTranspose",
        [x(1, 2, 4), x(2, 3, 3)],
        {"strides": [3], "output_shape": [11]},
        tolerance=1e-5,
        note="shape",
    ),
    Case(
        "BatchNormalization",
        [x(4, 3, 5), x(3), x(3), x(3), np.abs(x(3))],
        {"training_mode": 1, "momentum": 0.7},
        outputs=3,
        tolerance=1e-5,
        note="training",
    ),
    Case(
        "DeformConv",
        [x(1, 2, 5, 5), x(4, 2, 3, 3), x(1, 18, 3, 3), x(4), x(1, 9, 3, 3)],
        {},
        opset=19,
        tolerance=1e-5,
    ),
    Case(
        "DeformConv",
        [x(2, 4, 6, 5), x(4, 2, 2, 2), x(2, 16, 4, 3)],
        {"group": 2, "offset_group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]},
        opset=19,
        tolerance=1e-5,
        note="groups",
    ),
    Case(
        "DeformConv",
        [x(2, 3, 3, 1), x(2, 3, 3, 1), x(2, 6, 2, 1)],
        {"strides": [2, 1], "pads": [1, 0, 1, 0]},
        opset=19,
        tolerance=1e-5,
        note="one column",
    ),
]
EQUATIONS = [
    ("...ij,jk->...ik", [(2, 3, 4), (4, 5)]),
    ("...i,...i->...", [(2, 3, 4), (2, 3, 4)]),
    ("bij,bjk,kl->bil", [(2, 3, 4), (2, 4, 5), (5, 2)]),
    ("ii->i", [(3, 3)]),
    ("ij", [(2, 3)]),
    ("i,i", [(3,), (3,)]),
]


def ids(cases: list[Case]) -> list[str]:
    return [f"{n}-{c.name}" for n, c in enumerate(cases)]


@pytest.mark.parametrize("case", AFFINE, ids=ids(AFFINE))
def test_an_affine_map_gives_a_grid(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", GRID, ids=[c.note for c in GRID])
def test_an_image_is_sampled_at_a_grid(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("attrs", ROI, ids=["half", "scaled", "edges"])
def test_boxes_of_an_image_are_averaged(attrs: dict[str, Any], tmp_path: Path) -> None:
    batch = np.array([0, 1, 0])
    check(Case("RoiAlign", [x(2, 3, 6, 7), BOXES, batch], attrs, tolerance=1e-5), tmp_path)


@pytest.mark.parametrize("case", WINDOWS, ids=ids(WINDOWS))
def test_windows_become_kernels_that_equal_onnxruntime(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS, ids=[e for e, _ in EQUATIONS])
def test_every_equation_is_contractions(
    equation: str, shapes: list[tuple[int, ...]], tmp_path: Path
) -> None:
    inputs = [x(*s) for s in shapes]
    check(Case("Einsum", inputs, {"equation": equation}, tolerance=1e-5), tmp_path)
