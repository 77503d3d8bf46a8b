"""One operator with random attributes and shapes, for each operator that has attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.strategies.choices import Choices, Refused, generator
from tests.strategies.onnx import recipes_layout as layout
from tests.strategies.onnx import recipes_products as products
from tests.strategies.onnx.graph import FLOATS, Graph, Value, code
from tests.strategies.onnx.graphs import model_of
from tests.strategies.onnx.recipes import axes_of, random_array

SETS = 50
OPSETS = (18, 19, 20, 21, 22, 23)
SINGLE = ("float32",) * 4 + ("float64", "float16")
NUMBERS = (*SINGLE, "int64", "int32")
Drawer = Callable[[Graph, str], object]


def tensor(g: Graph, low: int, high: int, dtypes: Sequence[str] = SINGLE) -> Value:
    """Return an input of `low` to `high` dims."""
    shape = [g.one((1, 2, 2, 3, 3, 4, 5, 6, 7)) for _ in range(g.number(low, high))]
    return g.input(g.one(dtypes), shape)


def argument(g: Graph, dtype: str, shape: Sequence[int], scale: float = 1.0) -> Value:
    """Return a constant; sometimes an input, whose dims may be symbols, too."""
    if g.chance(0.25):
        return g.input(dtype, shape)
    return g.constant(random_array(g, dtype, tuple(shape), scale))


def some(g: Graph, **attributes: Any) -> dict[str, Any]:
    """Return some of the attributes; the others have their default."""
    return {name: value for name, value in attributes.items() if g.chance(0.7)}


def add_alike(g: Graph, op: str, value: Value, *more: Value, **attributes: Any) -> None:
    """Add a node whose result has the type of its first argument; onnx infers none for some."""
    result = Value(g.fresh(), value.dtype, value.shape)
    names = [v.name for v in (value, *more)]
    g.nodes.append(helper.make_node(op, names, [result.name], **attributes))
    g.values.append(result)


def recipe(draw: Callable[[Graph], object], *ranks: int, dtypes: Sequence[str] = SINGLE) -> Drawer:
    """Return a drawer that takes a recipe of random graphs for the operator it is asked for."""

    def drawn(g: Graph, op: str) -> None:
        tensor(g, *ranks, dtypes=dtypes)
        draw(g)
        if op not in {node.op_type for node in g.nodes}:
            raise Refused

    return drawn


def activation(g: Graph, op: str) -> None:
    """An operator of one element whose attributes are numbers."""
    schema = onnx.defs.get_schema(op, g.opset)
    numbers = {name: g.one((0.25, 0.5, 1.0, 1.5, 2.0)) for name in schema.attributes}
    g.add(op, tensor(g, 0, 4), **some(g, **numbers))


def gelu(g: Graph, op: str) -> None:
    g.add(op, tensor(g, 1, 4), **some(g, approximate=g.one(("none", "tanh"))))


def is_inf(g: Graph, op: str) -> None:
    signs = some(g, detect_negative=g.number(0, 1), detect_positive=g.number(0, 1))
    g.add(op, tensor(g, 1, 4, ("float32", "float64")), **signs)


def shift(g: Graph, op: str) -> None:
    value = tensor(g, 1, 3, ("uint8", "uint32", "uint64"))
    count = g.constant(g.rng.integers(0, 7, value.extents[-1:]), value.dtype)
    g.add(op, value, count, direction=g.one(("LEFT", "RIGHT")))


def cast(g: Graph, op: str) -> None:
    value = tensor(g, 1, 3, NUMBERS)
    to = g.one(("float32", "float64", "float16", "int32", "int64", "bool"))
    if op == "Cast":
        g.add(op, value, to=code(to))
    else:
        g.add(op, value, g.constant(1, to))


def modulo(g: Graph, op: str) -> None:
    value = tensor(g, 1, 3, NUMBERS)
    divisor = g.constant(g.rng.integers(1, 5, value.extents[-1:]), value.dtype)
    g.add(op, value, divisor, fmod=1 if value.dtype in FLOATS else g.number(0, 1))


def reduction(g: Graph, op: str) -> None:
    exact = op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")
    value = tensor(g, 1, 4, NUMBERS if exact else SINGLE)
    if op == "ReduceLogSum":
        value = g.add("Exp", value)
    axes = None if g.chance(0.2) else g.whole(*axes_of(g, value)) if g.chance(0.9) else g.whole()
    g.add(op, value, axes, **some(g, keepdims=g.number(0, 1), noop_with_empty_axes=g.number(0, 1)))


def by_axis(ranks: tuple[int, int], dtypes: Sequence[str], **more: Sequence[Any]) -> Drawer:
    """Return a drawer for operators of one input with `axis`, and other attributes."""

    def drawn(g: Graph, op: str) -> None:
        value = tensor(g, *ranks, dtypes)
        chosen = {name: g.one(values) for name, values in more.items()}
        g.add(op, value, **some(g, axis=g.axis(value), **chosen))

    return drawn


def running(g: Graph, op: str) -> None:
    value = tensor(g, 1, 4, NUMBERS)
    axis = g.constant(g.axis(value), g.one(("int64", "int32")))
    g.add(op, value, axis, **some(g, exclusive=g.number(0, 1), reverse=g.number(0, 1)))


def layer_norm(g: Graph, op: str) -> None:
    value = tensor(g, 2, 4)
    axis = g.axis(value)
    shape = value.extents[axis % value.rank :]
    rows = [argument(g, value.dtype, shape) for _ in range(1 if op[0] == "R" else g.number(1, 2))]
    g.add(op, value, *rows, axis=axis, **some(g, epsilon=g.one((1e-5, 1e-2, 0.5))))


def channel_norm(g: Graph, op: str) -> None:
    value = tensor(g, 3, 5)
    channels = value.extent(1)
    more = some(g, epsilon=g.one((1e-5, 1e-2, 0.5)))
    count = 4 if op == "BatchNormalization" else 2
    if op == "GroupNormalization":
        more["num_groups"] = g.one([n for n in range(1, channels + 1) if channels % n == 0])
    rows = [argument(g, value.dtype, (channels,)) for _ in range(min(count, 3))]
    if count == 4:
        rows.append(g.constant(g.rng.uniform(0.2, 2, (channels,)), value.dtype))
    add_alike(g, op, value, *rows, **more)


def lrn(g: Graph, op: str) -> None:
    more = some(
        g, alpha=g.one((1e-4, 0.1, 1.0)), beta=g.one((0.5, 0.75, 1.0)), bias=g.one((1.0, 2.0))
    )
    g.add(op, tensor(g, 3, 4, ("float32",)), size=g.one((1, 3, 5, 7)), **more)


def mean_variance(g: Graph, op: str) -> None:
    value = tensor(g, 4, 4, ("float32",))
    add_alike(g, op, value, **some(g, axes=sorted(a % 4 for a in axes_of(g, value))))


def windowed(g: Graph, value: Value, dilated: bool = True) -> dict[str, Any]:
    """Return a window with strides and padding that has a place in the image."""
    sizes = value.extents[2:]
    kernel = [g.number(1, 4) for _ in sizes]
    found: dict[str, Any] = {"kernel_shape": kernel}
    if g.chance(0.8):
        found["strides"] = [g.number(1, 4) for _ in sizes]
    if dilated and g.chance(0.5):
        found["dilations"] = [g.number(1, 3) for _ in sizes]
    way = g.one(("", "pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"))
    if way == "pads":
        found["pads"] = [g.number(0, k - 1) for k in kernel * 2]
    elif way:
        found["auto_pad"] = way
    if way.startswith("SAME"):
        found.pop("dilations", None)
    dilations = found.get("dilations", [1] * len(sizes))
    pads = found.get("pads", [0] * 2 * len(sizes))
    for i, size in enumerate(sizes):
        reach = (kernel[i] - 1) * dilations[i] + 1
        if not way.startswith("SAME") and size + pads[i] + pads[len(sizes) + i] < reach:
            raise Refused
    return found


def pool(g: Graph, op: str) -> None:
    value = tensor(g, 3, 5, ("float32", "float32", "float64"))
    dilated = op == "MaxPool" or (op == "AveragePool" and g.opset > 18)
    window = windowed(g, value, dilated)
    window.update(some(g, ceil_mode=g.number(0, 1) if "auto_pad" not in window else 0))
    if op == "AveragePool":
        window.update(some(g, count_include_pad=g.number(0, 1)))
    if op == "LpPool":
        window.update(some(g, p=g.number(1, 3)))
    results = 1 + (op == "MaxPool" and g.chance(0.3))
    if results == 2:
        window.update(some(g, storage_order=g.number(0, 1)))
    g.add_all(op, value, results=results, **window)


def global_pool(g: Graph, op: str) -> None:
    g.add(op, tensor(g, 3, 5), **some(g, p=g.number(1, 3)))


def grouped(g: Graph, channels: int) -> int:
    return int(g.one([n for n in range(1, channels + 1) if channels % n == 0]))


def conv(g: Graph, op: str) -> None:
    integer = op != "Conv"
    value = tensor(g, 3, 5, ("uint8",) if integer else SINGLE)
    channels, window = value.extent(1), windowed(g, value)
    group = grouped(g, channels)
    results = group * g.number(1, 3)
    shape = (results, channels // group, *window["kernel_shape"])
    more = {**window, **some(g, group=group)} if group == 1 else {**window, "group": group}
    if not integer:
        weights = argument(g, value.dtype, shape, 0.5)
        bias = argument(g, value.dtype, (results,)) if g.chance(0.5) else None
        g.add(op, value, weights, bias, **more)
        return
    weights = g.constant(g.rng.integers(-9, 9, shape), "int8")
    zero = g.constant(g.number(0, 3), "uint8")
    if op == "ConvInteger":
        g.add(op, value, weights, zero if g.chance(0.7) else None, **more)
        return
    scales = [g.constant(n, "float32") for n in (0.1, 0.05, 0.3)]
    zero_of_weights = g.constant(0, "int8")
    bias = g.constant(g.rng.integers(-9, 9, (results,)), "int32") if g.chance(0.5) else None
    given = (value, scales[0], zero, weights, scales[1], zero_of_weights, scales[2], zero, bias)
    g.add(op, *given, **more)


def conv_transpose(g: Graph, op: str) -> None:
    value = tensor(g, 3, 5)
    rank, channels = value.rank - 2, value.extent(1)
    kernel, strides = [g.number(1, 4) for _ in range(rank)], [g.number(1, 3) for _ in range(rank)]
    group = grouped(g, channels)
    more: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "group": group}
    more.update(some(g, dilations=[g.number(1, 2) for _ in range(rank)]))
    way = g.one(("", "pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"))
    if way == "pads":
        more["pads"] = [g.number(0, (k - 1) // 2) for k in kernel * 2]
    elif way:
        more["auto_pad"] = way
    if way != "VALID" and g.chance(0.3):
        more["output_shape"] = [
            max(1, n * s + g.number(-1, 2)) for n, s in zip(value.extents[2:], strides)
        ]
        more.pop("pads", None)
    elif g.chance(0.3):
        more["output_padding"] = [g.number(0, s - 1) for s in strides]
    shape = (channels, g.number(1, 3), *kernel)
    bias = argument(g, value.dtype, (shape[1] * group,)) if g.chance(0.5) else None
    found = g.add(op, value, argument(g, value.dtype, shape, 0.5), bias, **more)
    if found.static and 0 in found.extents:
        raise Refused


def deformed(g: Graph, op: str) -> None:
    value = tensor(g, 4, 4, ("float32",))
    window = windowed(g, value)
    if "auto_pad" in window:
        raise Refused
    n, channels, *sizes = value.extents
    group, of_offsets = grouped(g, channels), grouped(g, channels)
    kernel, places = window["kernel_shape"], []
    for i, size in enumerate(sizes):
        pads = window.get("pads", [0] * 4)
        reach = (kernel[i] - 1) * window.get("dilations", [1, 1])[i] + 1
        stride = window.get("strides", [1, 1])[i]
        places.append((size + pads[i] + pads[2 + i] - reach) // stride + 1)
    weights = g.constant(random_array(g, "float32", (group * 2, channels // group, *kernel), 0.5))
    offsets = g.input("float32", (n, of_offsets * prod(kernel) * 2, *places))
    bias = g.constant(random_array(g, "float32", (group * 2,))) if g.chance(0.5) else None
    mask = g.input("float32", (n, of_offsets * prod(kernel), *places)) if g.chance(0.5) else None
    more = {"group": group, "offset_group": of_offsets}
    g.add(op, value, weights, offsets, bias, mask, **window, **more)


def unfolded(g: Graph, op: str) -> None:
    """Col2Im: columns of a window put back to an image."""
    sizes, block = [g.number(3, 6) for _ in range(2)], [g.number(1, 3) for _ in range(2)]
    strides, dilations = ([g.number(1, 2) for _ in range(2)] for _ in "sd")
    pads = [g.number(0, 1) for _ in range(4)]
    places = 1
    for i in range(2):
        room = sizes[i] + pads[i] + pads[2 + i] - dilations[i] * (block[i] - 1) - 1
        if room < 0:
            raise Refused
        places *= room // strides[i] + 1
    value = g.input("float32", (g.number(1, 2), g.number(1, 3) * prod(block), places))
    more = {"strides": strides, "dilations": dilations, "pads": pads}
    g.add(op, value, g.whole(*sizes), g.whole(*block), **more)


def resized(g: Graph, op: str) -> None:
    value = tensor(g, 3, 4, ("float32", "float32", "float64"))
    mode = g.one(("nearest", "linear", "cubic"))
    if mode == "cubic" and value.rank != 4:
        raise Refused
    places = (
        "half_pixel",
        "align_corners",
        "asymmetric",
        "pytorch_half_pixel",
        "half_pixel_symmetric",
    )
    more: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": g.one(places)}
    if mode == "nearest":
        more["nearest_mode"] = g.one(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    elif g.chance(0.3):
        more["antialias"] = 1
    if mode == "cubic":
        more.update(some(g, cubic_coeff_a=g.one((-0.75, -0.5)), exclude_outside=g.number(0, 1)))
    axes = list(range(2, value.rank)) if g.chance(0.6) else None
    fixed = 0 if axes else 2
    if axes:
        more["axes"] = axes
    if g.chance(0.5):
        sizes = [g.number(1, 2 * n + 1) for n in value.extents[2:]]
        if axes and g.chance(0.4):
            more["keep_aspect_ratio_policy"] = g.one(("not_larger", "not_smaller"))
        g.add(op, value, None, None, g.whole(*value.extents[:fixed], *sizes), **more)
        return
    scales = [1.0] * fixed + [g.one((1.0, 2.0, 0.5, 1.5, 3.0, 0.7)) for _ in value.shape[2:]]
    if any(int(n * s) < 1 for n, s in zip(value.extents[2:], scales[fixed:])):
        raise Refused
    g.add(op, value, None, g.constant(np.array(scales, np.float32)), **more)


def grid_sample(g: Graph, op: str) -> None:
    value = tensor(g, 4, 4, ("float32",))
    grid = g.input("float32", (value.extent(0), g.number(1, 5), g.number(1, 5), 2))
    modes = ("bilinear", "bicubic", "nearest") if g.opset < 20 else ("linear", "cubic", "nearest")
    padding = g.one(("zeros", "border", "reflection"))
    more = some(g, mode=g.one(modes), padding_mode=padding, align_corners=g.number(0, 1))
    g.add(op, value, grid, **more)


def affine_grid(g: Graph, op: str) -> None:
    rank = g.number(2, 3)
    theta = g.input("float32", (g.number(1, 3), rank, rank + 1))
    size = g.whole(theta.extent(0), 2, *(g.number(2, 5) for _ in range(rank)))
    g.add(op, theta, size, **some(g, align_corners=g.number(0, 1)))


def regions(g: Graph, op: str) -> None:
    value, count = tensor(g, 4, 4, ("float32",)), g.number(1, 4)
    corners = g.rng.uniform(0, 4, (count, 2))
    boxes = np.concatenate([corners, corners + g.rng.uniform(0.5, 5, (count, 2))], 1)
    if op == "MaxRoiPool":
        rows = np.concatenate([g.rng.integers(0, value.extent(0), (count, 1)), boxes.round()], 1)
        shape = [g.number(1, 3), g.number(1, 3)]
        scale = some(g, spatial_scale=g.one((1.0, 0.5)))
        g.add(op, value, g.constant(rows, "float32"), pooled_shape=shape, **scale)
        return
    places = g.constant(g.rng.integers(0, value.extent(0), (count,)), "int64")
    more = some(
        g,
        mode=g.one(("avg", "max")),
        output_height=g.number(1, 3),
        output_width=g.number(1, 3),
        sampling_ratio=g.number(0, 2),
        spatial_scale=g.one((1.0, 0.5)),
        coordinate_transformation_mode=g.one(("half_pixel", "output_half_pixel")),
    )
    g.add(op, value, g.constant(boxes, "float32"), places, **more)


def blocks(g: Graph, op: str) -> None:
    block = g.number(1, 3)
    if op == "DepthToSpace":
        value = g.input(g.one(SINGLE), (2, block * block * g.number(1, 3), 3, g.number(1, 4)))
        g.add(op, value, blocksize=block, **some(g, mode=g.one(("DCR", "CRD"))))
    else:
        value = g.input(g.one(SINGLE), (2, 3, block * g.number(1, 3), block * g.number(1, 3)))
        g.add(op, value, blocksize=block)


def unsqueeze(g: Graph, op: str) -> None:
    value, count = tensor(g, 0, 3), g.number(1, 2)
    rank = value.rank + count
    axes = [a - (rank if g.chance(0.4) else 0) for a in g.choices.permutation(rank)[:count]]
    g.add(op, value, g.whole(*axes))


def squeeze(g: Graph, op: str) -> None:
    value = tensor(g, 1, 5)
    ones = [n - (value.rank if g.chance(0.4) else 0) for n, e in enumerate(value.shape) if e == 1]
    if not ones:
        raise Refused
    g.add(op, value, g.whole(*ones[: g.number(1, 3)]) if g.chance(0.7) else None)


def shaped(g: Graph, op: str) -> None:
    value = tensor(g, 0, 4, (*NUMBERS, "bool"))
    ends = some(g, start=g.number(-4, 4)) | (some(g, end=g.number(-4, 4)) if g.chance(0.6) else {})
    g.add(op, value, **ends)


def filled(g: Graph, op: str) -> None:
    shape = g.add("Shape", tensor(g, 1, 3))
    dtype = g.one(("float32", "int64", "bool", "float16"))
    tensor_of_one = onnx.numpy_helper.from_array(np.array([g.number(0, 3)], dtype))
    g.add(op, shape, **some(g, value=tensor_of_one))


def eye(g: Graph, op: str) -> None:
    more = some(g, k=g.number(-3, 3), dtype=code(g.one(("float32", "int64", "float64"))))
    g.add(op, tensor(g, 2, 2, ("float32", "int32")), **more)


def cropped(g: Graph, op: str) -> None:
    value = tensor(g, 1, 4)
    if g.chance(0.4):
        axes, more = list(range(value.rank)), {}
    else:
        axes = axes_of(g, value)
        more = {"axes": axes}
    g.add(op, value, g.whole(*(g.number(1, 8) for _ in axes)), **more)


def compressed(g: Graph, op: str) -> None:
    value = tensor(g, 1, 3)
    axis = g.axis(value)
    more = some(g, axis=axis)
    count = value.extent(axis) if more else prod(value.extents)
    chosen = g.rng.random(g.number(1, count)) < 0.6
    g.add(op, value, g.constant(chosen, "bool"), **more)


def unique(g: Graph, op: str) -> None:
    value = tensor(g, 1, 3, ("int64", "float32"))
    more = some(g, axis=g.axis(value), sorted=g.number(0, 1))
    g.add_all(op, value, results=g.one((1, 4)), **more)


def dense(g: Graph, op: str) -> None:
    """Gemm, of every transposition and kind of bias."""
    rows, depth, columns = (g.number(1, 7) for _ in range(3))
    dtype, turned, other = g.one(SINGLE), g.number(0, 1), g.number(0, 1)
    a = g.input(dtype, (depth, rows) if turned else (rows, depth))
    b = argument(g, dtype, (columns, depth) if other else (depth, columns))
    bias = g.one(((), (columns,), (1, columns), (rows, 1), (rows, columns), None))
    more = some(g, alpha=g.one((0.5, 1.0, -2.0)), beta=g.one((0.5, 0.0, -2.0)))
    c = None if bias is None else argument(g, dtype, bias)
    g.add(op, a, b, c, transA=turned, transB=other, **more)


EQUATIONS = (
    "ij,jk->ik", "ij,kj", "bij,bjk->bik", "...ij,...jk->...ik", "ij->ji", "ij->", "i,j->ij",
    "ij,ij->i", "ijk,ikl,lm->ijm", "bhwc,hkc->bhwk", "bhid,bhjd->bhij", "i,i", "abc,abd->acd",
    "ijk->kij", "ij->i",
)  # fmt: skip


def einsum(g: Graph, op: str) -> None:
    equation, dtype = g.one(EQUATIONS), g.one(("float32", "float64"))
    sizes = {letter: g.number(2, 5) for letter in "abcdhijklmw"}
    terms = equation.split("->")[0].split(",")
    batch = tuple(g.number(2, 3) for _ in range(g.number(0, 2)))
    given = []
    for term in terms:
        shape = (*(batch if "." in term else ()), *(sizes[letter] for letter in term.strip(".")))
        given.append(g.input(dtype, shape) if g.chance(0.7) else argument(g, dtype, shape))
    g.add(op, *given, equation=equation)


def recurrent(g: Graph, op: str) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    direction, laid_out = g.one(("forward", "reverse", "bidirectional")), int(g.chance(0.2))
    ways = 2 if direction == "bidirectional" else 1
    steps, batch, width, hidden = (g.number(1, 4) for _ in range(4))
    dtype = g.one(("float32", "float32", "float64"))
    x = g.input(dtype, (batch, steps, width) if laid_out else (steps, batch, width))
    w, r = (
        g.constant(random_array(g, dtype, (ways, gates * hidden, n), 0.5)) for n in (width, hidden)
    )
    bias = g.constant(random_array(g, dtype, (ways, 2 * gates * hidden), 0.5))
    lengths = g.constant(g.rng.integers(1, steps + 1, (batch,)), "int32")
    state = (batch, ways, hidden) if laid_out else (ways, batch, hidden)
    more: dict[str, Any] = {"hidden_size": hidden, "direction": direction, "layout": laid_out}
    if g.chance(0.4):
        kinds = ("Tanh", "Sigmoid", "Relu", "HardSigmoid", "Softsign", "Elu", "LeakyRelu")
        count = {"LSTM": 3, "GRU": 2, "RNN": 1}[op] * ways
        more["activations"] = [g.one(kinds[:3] if g.chance(0.7) else kinds) for _ in range(count)]
    more.update(some(g, clip=g.one((0.5, 2.0))) if g.chance(0.3) else {})
    if op == "GRU":
        more.update(some(g, linear_before_reset=g.number(0, 1)))
    if op == "LSTM":
        more.update(some(g, input_forget=g.number(0, 1)) if g.chance(0.3) else {})
    first = [g.input(dtype, state) if g.chance(0.4) else None for _ in range(1 + (op == "LSTM"))]
    peepholes = None
    if op == "LSTM" and g.chance(0.3):
        peepholes = g.constant(random_array(g, dtype, (ways, 3 * hidden), 0.5))
        first.append(peepholes)
    given = (bias if g.chance(0.7) else None, lengths if g.chance(0.3) else None, *first)
    g.add_all(op, x, w, r, *given, results=3 if op == "LSTM" else 2, **more)


def quantized(g: Graph, op: str) -> None:
    """QuantizeLinear and DequantizeLinear, by tensor, by axis and by block."""
    value = tensor(g, 1, 3, ("float32",) if op[0] == "Q" else ("uint8", "int8"))
    dtype = g.one(("uint8", "int8")) if op[0] == "Q" else value.dtype
    way, more = g.one(("tensor", "axis", "block")), {}
    shape: tuple[int, ...] = ()
    if way != "tensor":
        axis = g.axis(value)
        more["axis"] = axis
        n = value.extent(axis)
        shape = (n,)
        if way == "block":
            more["block_size"] = block = g.number(1, n)
            rows = list(value.extents)
            rows[axis] = -(-n // block)
            shape = tuple(rows)
    scale = g.constant(g.rng.uniform(0.05, 0.3, shape), "float32")
    zero = g.constant(g.rng.integers(0, 5, shape), dtype) if g.chance(0.8) else None
    if zero is None and op[0] == "Q":
        more["output_dtype"] = code(dtype)
    g.add(op, value, scale, zero, **more)


def fourier(g: Graph, op: str) -> None:
    """DFT of real or complex rows."""
    parts = g.number(1, 2)
    value = tensor(g, 1, 3, ("float32", "float32", "float64"))
    value = g.input(value.dtype, (g.number(1, 3), *value.extents, parts))
    axis = g.number(1, value.rank - 2)
    more = {"onesided": 1} if parts == 1 and g.chance(0.4) else some(g, inverse=g.number(0, 1))
    length = g.constant(g.number(1, 8), "int64") if g.chance(0.3) else None
    if g.opset < 20:
        g.add(op, value, length, axis=axis, **more)
    else:
        g.add(op, value, length, g.constant(axis, "int64"), **more)


def short_time(g: Graph, op: str) -> None:
    length, step = g.number(2, 6), g.number(1, 4)
    signal = g.input("float32", (g.number(1, 3), length + g.number(0, 9), 1))
    window = g.constant(random_array(g, "float32", (length,))) if g.chance(0.6) else None
    frame = g.constant(length, "int64") if window is None or g.chance(0.5) else None
    more = some(g, onesided=g.number(0, 1))
    g.add(op, signal, g.constant(step, "int64"), window, frame, **more)


def window_function(g: Graph, op: str) -> None:
    size = g.input("int64", ()) if g.chance(0.3) else g.constant(g.number(2, 9), "int64")
    more = some(g, periodic=g.number(0, 1), output_datatype=code(g.one(("float32", "float64"))))
    g.add(op, size, **more)


def losses(g: Graph, op: str) -> None:
    value = tensor(g, 2, 4, ("float32", "float64"))
    n, classes, *rest = value.extents
    labels = g.constant(g.rng.integers(0, classes, (n, *rest)), g.one(("int64", "int32")))
    weights = g.constant(g.rng.uniform(0.2, 2, (classes,)), value.dtype) if g.chance(0.5) else None
    more = some(g, reduction=g.one(("none", "mean", "sum")), ignore_index=g.number(0, classes - 1))
    g.add(op, value, labels, weights, **more)


def attention(g: Graph, op: str) -> None:
    heads, ratio, size, batch = g.number(1, 3), g.number(1, 2), g.number(1, 4), g.number(1, 3)
    rows, columns, width = (g.number(1, 5) for _ in range(3))
    more = some(g, scale=g.one((0.5, 1.0)), softcap=g.one((0.0, 2.0)), is_causal=g.number(0, 1))
    if g.chance(0.5):
        shapes = [(batch, heads * ratio, rows, size), (batch, heads, columns, size)]
        shapes.append((batch, heads, columns, width))
    else:
        shapes = [(batch, rows, heads * ratio * size), (batch, columns, heads * size)]
        shapes.append((batch, columns, heads * width))
        more |= {"q_num_heads": heads * ratio, "kv_num_heads": heads}
    given = [g.input("float32", shape) for shape in shapes]
    mask = g.input("float32", (rows, columns)) if g.chance(0.3) else None
    g.add(op, *given, mask, **more)


def rotated(g: Graph, op: str) -> None:
    batch, heads, rows, size = g.number(1, 3), g.number(1, 3), g.number(1, 4), 2 * g.number(1, 4)
    part = 2 * g.number(1, size // 2)
    more: dict[str, Any] = some(g, interleaved=g.number(0, 1))
    if part < size:
        more["rotary_embedding_dim"] = part
    if g.chance(0.5):
        value = g.input("float32", (batch, heads, rows, size))
    else:
        value = g.input("float32", (batch, rows, heads * size))
        more["num_heads"] = heads
    tables = [g.constant(random_array(g, "float32", (9, part // 2))) for _ in range(2)]
    places = g.constant(g.rng.integers(0, 9, (batch, rows)), "int64")
    g.add(op, value, *tables, places, **more)


def picked(g: Graph, op: str) -> None:
    """A boxes' selection by overlap and score."""
    batch, count, classes = g.number(1, 2), g.number(1, 6), g.number(1, 3)
    boxes, scores = (
        g.input("float32", (batch, count, 4)),
        g.input("float32", (batch, classes, count)),
    )
    most = g.constant(g.number(1, 4), "int64")
    limits = [g.constant(n, "float32") for n in (0.5, 0.1)]
    g.add(op, boxes, scores, most, *limits, **some(g, center_point_box=g.number(0, 1)))


def put(g: Graph, op: str) -> None:
    """TensorScatter: rows written into a cache."""
    batch, heads, length, width = (g.number(1, 4) for _ in range(4))
    rows = g.number(1, length)
    cache, update = (g.input("float32", (batch, heads, n, width)) for n in (length, rows))
    at = g.constant(g.rng.integers(0, length - rows + 1, (batch,)), "int64")
    g.add(op, cache, update, at, **some(g, axis=-2, mode=g.one(("linear", "circular"))))


def gathered(g: Graph, op: str) -> None:
    """GatherND with dims of batches."""
    value = tensor(g, 2, 4)
    dims = g.number(0, value.rank - 1)
    depth = g.number(1, value.rank - dims)
    shape = (*value.extents[:dims], *(g.number(1, 3) for _ in range(g.number(0, 2))))
    rows = [g.rng.integers(-n, n, shape) for n in value.extents[dims : dims + depth]]
    g.add(op, value, g.constant(np.stack(rows, -1), "int64"), batch_dims=dims)


def joined(g: Graph, op: str) -> None:
    value = tensor(g, 1, 4, (*NUMBERS, "bool"))
    axis = g.axis(value)
    others = []
    for _ in range(g.number(0, 3)):
        shape = list(value.extents)
        shape[axis] = g.number(1, 4)
        others.append(argument(g, value.dtype, shape))
    g.add(op, value, *others, axis=axis)


def one_hot(g: Graph, op: str) -> None:
    value = tensor(g, 0, 3, ("int64", "int32"))
    pair = g.constant([0, 1], g.one(("float32", "int64")))
    axis = g.number(-value.rank - 1, value.rank)
    g.add(op, value, g.constant(g.number(1, 9), "int64"), pair, **some(g, axis=axis))


ANY = (*NUMBERS, "bool")
DRAWERS: dict[str, Drawer] = {
    **dict.fromkeys(
        ("Elu", "LeakyRelu", "Celu", "Selu", "HardSigmoid", "ThresholdedRelu", "Shrink", "Swish"),
        activation,
    ),
    "Gelu": gelu,
    "IsInf": is_inf,
    "BitShift": shift,
    "Cast": cast,
    "CastLike": cast,
    "Mod": modulo,
    **dict.fromkeys(
        ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
         "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"), reduction
    ),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), by_axis((1, 4), SINGLE)),
    "Flatten": by_axis((1, 4), ANY),
    "LpNormalization": by_axis((1, 4), ("float32", "float64"), p=(1, 2)),
    **dict.fromkeys(
        ("ArgMax", "ArgMin"), by_axis((1, 4), NUMBERS, keepdims=(0, 1), select_last_index=(0, 1))
    ),
    **dict.fromkeys(("CumSum",), running),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), layer_norm),
    **dict.fromkeys(
        ("BatchNormalization", "InstanceNormalization", "GroupNormalization"), channel_norm
    ),
    "LRN": lrn,
    "MeanVarianceNormalization": mean_variance,
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), pool),
    "GlobalLpPool": global_pool,
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv"), conv),
    "ConvTranspose": conv_transpose,
    "DeformConv": deformed,
    "Col2Im": unfolded,
    "Resize": resized,
    "GridSample": grid_sample,
    "AffineGrid": affine_grid,
    **dict.fromkeys(("RoiAlign", "MaxRoiPool"), regions),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), blocks),
    "Transpose": recipe(layout.transpose, 1, 4, dtypes=ANY),
    "Reshape": recipe(layout.reshape, 1, 4, dtypes=ANY),
    "Slice": recipe(layout.sliced, 1, 4, dtypes=ANY),
    "Pad": recipe(layout.padded, 1, 4, dtypes=NUMBERS),
    "Tile": recipe(layout.tiled, 1, 4, dtypes=ANY),
    "Expand": recipe(layout.expanded, 1, 4, dtypes=ANY),
    "Split": recipe(layout.split, 1, 4, dtypes=ANY),
    "Gather": recipe(layout.gather, 1, 4, dtypes=ANY),
    "GatherElements": recipe(layout.gather_elements, 1, 4, dtypes=ANY),
    "ScatterElements": recipe(layout.gather_elements, 1, 4, dtypes=ANY),
    "ScatterND": recipe(layout.gather_nd, 1, 4, dtypes=ANY),
    "GatherND": gathered,
    "Trilu": recipe(layout.trilu, 2, 4, dtypes=ANY),
    "TopK": recipe(layout.top, 1, 4, dtypes=NUMBERS),
    "ReverseSequence": recipe(layout.reversed_rows, 2, 4),
    "QLinearMatMul": recipe(products.quantised, 2, 3, dtypes=("float32",)),
    "MatMulInteger": recipe(products.quantised, 2, 3, dtypes=("float32",)),
    "OneHot": one_hot,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Concat": joined,
    "Shape": shaped,
    "ConstantOfShape": filled,
    "EyeLike": eye,
    "CenterCropPad": cropped,
    "Compress": compressed,
    "Unique": unique,
    "Gemm": dense,
    "Einsum": einsum,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), recurrent),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), quantized),
    "DFT": fourier,
    "STFT": short_time,
    **dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow"), window_function),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), losses),
    "Attention": attention,
    "RotaryEmbedding": rotated,
    "NonMaxSuppression": picked,
    "TensorScatter": put,
}  # fmt: skip
FIRST = {  # the first opset of an operator, or of the attributes that are drawn
    "RMSNormalization": 23, "RotaryEmbedding": 23, "Attention": 23, "TensorScatter": 24,
    "Swish": 24,
    "GroupNormalization": 21, "DeformConv": 19,
    "QuantizeLinear": 21, "DequantizeLinear": 21, "Gelu": 20, "AffineGrid": 20, "GridSample": 20,
}  # fmt: skip
OPERATORS = tuple(DRAWERS)


@generator
def models(c: Choices, op: str) -> onnx.ModelProto:
    """A model of one operator with a random set of attributes."""
    g = Graph(c, max(c.one(OPSETS), FIRST.get(op, 0)))
    DRAWERS[op](g, op)
    return model_of(g, op)
