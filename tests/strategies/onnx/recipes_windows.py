"""Convolutions and pools in one to three dims: grouped, strided, dilated, padded unevenly."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.strategies.choices import Refused
from tests.strategies.onnx.graph import Graph, Value
from tests.strategies.onnx.recipes import random_array

CHANNELS = (1, 2, 3, 4, 5, 8, 16, 17, 33)


def image(g: Graph, dtypes: tuple[str, ...] = ("float32", "float16", "float64")) -> Value:
    """A value with a batch, channels of known extent and one to three dims."""
    return g.pick(dtypes, (3, 4, 5), lambda v: isinstance(v.shape[1], int))


def _window(g: Graph, value: Value, most: int = 4) -> dict[str, Any]:
    """Window, strides, dilations and padding that leave at least one place for the window, of a
    symbol also where it is 1.
    """
    sizes = [n if isinstance(n, int) else 1 for n in value.shape[2:]]
    n = len(sizes)
    kernel = [g.one((1, 2, 3, 3, most, 5)) if g.chance(0.9) else g.number(1, 7) for _ in sizes]
    found: dict[str, Any] = {"kernel_shape": kernel}
    found["strides"] = [g.one((1, 1, 1, 2, 3)) for _ in sizes]
    dilations = [g.one((1, 1, 1, 2, 3)) for _ in sizes]
    if g.chance(0.2):
        found["auto_pad"] = g.one(("SAME_UPPER", "SAME_LOWER", "VALID"))
        if found["auto_pad"].startswith("SAME"):
            dilations = [1] * n
    elif g.chance(0.4):
        found["pads"] = [k // 2 for k in kernel] * 2
    else:
        found["pads"] = [g.number(0, max(0, k - 1)) for k in (*kernel, *kernel)]
    if g.chance(0.5):
        dilations = [1] * n
    found["dilations"] = dilations
    pads = found.get("pads", [0] * 2 * n)
    if not found.get("auto_pad", "").startswith("SAME"):
        for i, size in enumerate(sizes):
            if size + pads[i] + pads[n + i] < (kernel[i] - 1) * dilations[i] + 1:
                raise Refused
    return found


def _groups(g: Graph, channels: int) -> int:
    if g.chance(0.55) or not channels:
        return 1
    return int(g.one([n for n in range(1, channels + 1) if channels % n == 0]))


def conv(g: Graph) -> None:
    value = image(g)
    channels = value.extent(1)
    if not channels:
        raise Refused
    window = _window(g, value)
    group = _groups(g, channels)
    made = group * g.one((1, 1, 2, 3)) if group > 1 else g.one(CHANNELS)
    shape = (made, channels // group, *window["kernel_shape"])
    weights = g.constant(random_array(g, value.dtype, shape, 0.5))
    bias = g.constant(random_array(g, value.dtype, (made,))) if g.chance(0.5) else None
    g.add("Conv", value, weights, bias, group=group, **window)


def conv_transpose(g: Graph) -> None:
    value = image(g)
    channels = value.extent(1)
    if not channels:
        raise Refused
    group = _groups(g, channels)
    dims = value.rank - 2
    kernel = [g.number(1, 4) for _ in range(dims)]
    strides = [g.one((1, 1, 2, 3)) for _ in range(dims)]
    made = g.one((1, 2, 3, 5, 9))
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": strides,
        "dilations": [g.one((1, 1, 2)) for _ in range(dims)],
        "pads": [g.number(0, 1) for _ in range(2 * dims)],
        "output_padding": [g.number(0, s - 1) if g.chance(0.3) else 0 for s in strides],
        "group": group,
    }
    if g.chance(0.15):
        del attributes["pads"]
        attributes["auto_pad"] = g.one(("SAME_UPPER", "SAME_LOWER", "VALID"))
        if any(k < s for k, s in zip(kernel, strides, strict=True)):
            attributes["auto_pad"] = "VALID"  # of SAME, onnxruntime's shape is not the standard's
    pads = attributes.get("pads", [0] * 2 * dims)
    for i, extent in enumerate(
        value.shape[2:]
    ):  # of a symbol, there are elements also where it is 1
        reach = (kernel[i] - 1) * attributes["dilations"][i] + attributes["output_padding"][i]
        if isinstance(extent, str) and reach < pads[i] + pads[dims + i]:
            raise Refused
    weights = g.constant(random_array(g, value.dtype, (channels, made, *kernel), 0.5))
    bias = None
    if g.chance(0.5):
        bias = g.constant(random_array(g, value.dtype, (made * group,)))
    found = g.add("ConvTranspose", value, weights, bias, **attributes)
    if found.static and 0 in found.extents:
        raise Refused


def pool(g: Graph) -> None:
    op = g.one(("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool"))
    value = image(g)
    if op.startswith("Global"):
        g.add(op, value)
        return
    window = _window(g, value, 3)
    if op != "MaxPool" and (g.opset < 19 or op == "LpPool"):
        window["dilations"] = [1] * (value.rank - 2)
    if op == "AveragePool" and g.opset < 19:
        del window["dilations"]
    if op == "AveragePool":
        window["count_include_pad"] = g.number(0, 1)
    if op == "LpPool":
        window["p"] = g.number(1, 3)
    window["ceil_mode"] = int(g.chance(0.3) and "auto_pad" not in window)
    pads = window.get("pads")
    if pads and any(p >= k for p, k in zip(pads, window["kernel_shape"] * 2)):
        raise Refused
    if op == "MaxPool" and g.chance(0.2):
        window["storage_order"] = g.number(0, 1)
        g.add_all(op, value, results=2, **window)
    else:
        g.add(op, value, **window)


def resize(g: Graph) -> None:
    value = image(g, ("float32", "float16", "float64"))
    mode = g.one(("nearest", "linear", "cubic"))
    if mode == "cubic" and value.rank != 4:
        raise Refused
    places = "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": g.one(places)}
    if mode == "nearest":
        rounded = "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"
        attributes["nearest_mode"] = g.one(rounded)
    if mode == "cubic":
        attributes["cubic_coeff_a"] = g.one((-0.75, -0.5))
        attributes["exclude_outside"] = g.number(0, 1)
    if g.chance(0.5) and value.static:
        sizes = [g.number(1, 2 * n + 1) if n else 0 for n in value.extents[2:]]
        g.add("Resize", value, None, None, g.whole(*value.extents[:2], *sizes), **attributes)
    else:
        scales = [1.0, 1.0, *(g.one((1.0, 2.0, 0.5, 1.5, 3.0, 0.7)) for _ in value.shape[2:])]
        if any(isinstance(n, int) and int(n * s) < 1 for n, s in zip(value.shape, scales)):
            raise Refused
        g.add("Resize", value, None, g.constant(np.array(scales, np.float32)), **attributes)


def depth(g: Graph) -> None:
    value = image(g)
    if value.rank != 4:
        raise Refused
    block = g.number(1, 3)
    if g.chance(0.5) and value.extent(1) % (block * block) == 0:
        g.add("DepthToSpace", value, blocksize=block, mode=g.one(("DCR", "CRD")))
    elif value.extent(2) % block == 0 and value.extent(3) % block == 0:
        g.add("SpaceToDepth", value, blocksize=block)
    else:
        raise Refused
