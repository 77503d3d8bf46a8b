"""Pools and what else reads images by windows or between their elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.transforms.autodiff.torch_cases.case import Case, case, op, some, torch

F = torch.nn.functional
SHARED = (
    "the largest elements of a window share the derivative, as those of PyTorch's own amax do; its "
    "max_pool gives all to the one that it finds first"
)
TIED = np.round(some(1, 2, 6, 6))  # whole numbers


def max_pool(
    x: Any, size: int, stride: int, padding: int = 0, dilation: int = 1, **more: Any
) -> Case:
    rank = x.ndim - 2
    theirs = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[rank]
    attrs = {
        "kernel_shape": (size,) * rank,
        "strides": (stride,) * rank,
        "pads": (padding,) * (2 * rank),
        "dilations": (dilation,) * rank,
        "ceil_mode": int(more.get("ceil_mode", False)),
    }
    why = more.pop("why", "")
    return case(
        op("MaxPool", **attrs),
        lambda x: theirs(x, size, stride, padding, dilation, **more),
        x,
        why=why,
    )


def average(x: Any, size: int, stride: int, padding: int = 0, counts: bool = False) -> Case:
    rank = x.ndim - 2
    theirs = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[rank]
    attrs = {
        "kernel_shape": (size,) * rank,
        "strides": (stride,) * rank,
        "pads": (padding,) * (2 * rank),
        "count_include_pad": int(counts),
    }
    return case(
        op("AveragePool", **attrs),
        lambda x: theirs(x, size, stride, padding, count_include_pad=counts),
        x,
    )


def resize(x: Any, scale: float, mode: str, theirs: str, corners: bool = False) -> Case:
    where = "align_corners" if corners else "asymmetric" if mode == "nearest" else "half_pixel"
    sizes = np.array([*x.shape[:2], *(int(n * scale) for n in x.shape[2:])])
    nearest = {"nearest_mode": "floor"} if mode == "nearest" else {}
    more = {"cubic_coeff_a": -0.75} if mode == "cubic" else {}
    run = op("Resize", mode=mode, coordinate_transformation_mode=where, **nearest, **more)
    options = {} if mode == "nearest" else {"align_corners": corners}
    return case(
        lambda x: run(x, None, None, sizes),
        lambda x: F.interpolate(x, size=tuple(map(int, sizes[2:])), mode=theirs, **options),
        x,
    )


def grid_sample(mode: str, padding: str, corners: bool) -> Case:
    theirs = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return case(
        op("GridSample", mode=mode, padding_mode=padding, align_corners=int(corners)),
        lambda x, g: F.grid_sample(x, g, theirs, padding, corners),
        some(2, 3, 4, 5),
        some(2, 3, 4, 2) * 0.6,
    )


def unpooled(x: Any) -> Any:
    found, places = F.max_pool2d(x, 2, return_indices=True)
    return F.max_unpool2d(found, places, 2)


def _unpooled(x: Any) -> Any:
    found, places = op("MaxPool", results=2, kernel_shape=(2, 2), strides=(2, 2))(x)
    return op("MaxUnpool", kernel_shape=(2, 2), strides=(2, 2))(found, places)


CASES: dict[str, Case] = {
    "max pool, 1-D": max_pool(some(2, 3, 9), 3, 2),
    "max pool": max_pool(some(1, 2, 6, 6), 2, 2),
    "max pool, overlapping, padded": max_pool(some(1, 2, 7, 7), 3, 2, 1),
    "max pool, dilated": max_pool(some(1, 2, 8, 8), 2, 1, 0, 2),
    "max pool, of a part": max_pool(some(1, 2, 7, 7), 2, 2, ceil_mode=True),
    "max pool, 3-D": max_pool(some(1, 2, 4, 4, 4), 2, 2),
    "max pool, ties": max_pool(TIED, 2, 2, why=SHARED),
    "max pool, ties, overlapping": max_pool(TIED, 3, 1, 1, why=SHARED),
    "max pool, its places": case(
        lambda x: op("MaxPool", results=2, kernel_shape=(2, 2), strides=(2, 2))(x)[0],
        lambda x: F.max_pool2d(x, 2),
        some(1, 2, 6, 6),
    ),
    "average pool, 1-D": average(some(2, 3, 9), 3, 2),
    "average pool": average(some(1, 2, 6, 6), 2, 2),
    "average pool, padded": average(some(1, 2, 7, 7), 3, 2, 1),
    "average pool, padding counts": average(some(1, 2, 7, 7), 3, 2, 1, True),
    "average pool, 3-D": average(some(1, 2, 4, 4, 4), 2, 1, 1),
    "global average": case(
        op("GlobalAveragePool"), lambda x: F.adaptive_avg_pool2d(x, 1), some(2, 3, 4, 5)
    ),
    "global maximum": case(
        op("GlobalMaxPool"), lambda x: F.adaptive_max_pool2d(x, 1), some(2, 3, 4, 5)
    ),
    "Lp pool": case(
        op("LpPool", p=2, kernel_shape=(2, 2), strides=(2, 2)),
        lambda x: F.lp_pool2d(x, 2.0, 2),
        some(1, 2, 6, 6),
    ),
    "Lp pool, of nothing but zeros": case(
        op("LpPool", p=2, kernel_shape=(2, 2), strides=(2, 2)),
        lambda x: F.lp_pool2d(x, 2.0, 2),
        np.zeros((1, 1, 4, 4)),
    ),
    "global L3": case(
        op("GlobalLpPool", p=3),
        lambda x: torch.linalg.vector_norm(x, 3, dim=(2, 3), keepdim=True),
        some(2, 3, 4, 5),
    ),
    "resize, nearest": resize(some(1, 2, 3, 4), 2, "nearest", "nearest"),
    "resize, nearest, smaller": resize(some(1, 2, 6, 8), 0.5, "nearest", "nearest"),
    "resize, linear": resize(some(1, 2, 3, 4), 2, "linear", "bilinear"),
    "resize, linear, 1-D": resize(some(1, 2, 5), 2, "linear", "linear"),
    "resize, linear, corners": resize(some(1, 2, 3, 4), 2, "linear", "bilinear", True),
    "resize, linear, smaller": resize(some(1, 2, 6, 8), 0.75, "linear", "bilinear"),
    "resize, cubic": resize(some(1, 2, 4, 5), 2, "cubic", "bicubic"),
    "grid sample": grid_sample("linear", "zeros", False),
    "grid sample, corners": grid_sample("linear", "zeros", True),
    "grid sample, border": grid_sample("linear", "border", False),
    "grid sample, reflected": grid_sample("linear", "reflection", False),
    "grid sample, nearest": grid_sample("nearest", "zeros", False),
    "grid sample, cubic": grid_sample("cubic", "zeros", False),
    "grid sample, cubic, border": grid_sample("cubic", "border", False),
    "grid sample, cubic, reflected": grid_sample("cubic", "reflection", True),
    "MaxUnpool": case(_unpooled, unpooled, some(1, 2, 6, 6)),
    "Col2Im": case(
        lambda x: op("Col2Im")(x, np.array([5, 6]), np.array([2, 3])),
        lambda x: F.fold(x, (5, 6), (2, 3)),
        some(2, 12, 16),
    ),
    "DepthToSpace": case(
        op("DepthToSpace", blocksize=2, mode="CRD"),
        lambda x: F.pixel_shuffle(x, 2),
        some(2, 8, 3, 4),
    ),
    "SpaceToDepth": case(
        lambda x: op("SpaceToDepth", blocksize=2)(x),
        lambda x: (
            F.pixel_unshuffle(x, 2)
            .reshape(2, 3, 2, 2, 2, 2)
            .permute(0, 2, 3, 1, 4, 5)
            .reshape(2, 12, 2, 2)
        ),
        some(2, 3, 4, 4),
    ),
    "LRN": case(
        op("LRN", size=3, alpha=0.3, beta=0.75, bias=1.5),
        lambda x: F.local_response_norm(x, 3, 0.3, 0.75, 1.5),
        some(2, 5, 3, 3),
    ),
}
