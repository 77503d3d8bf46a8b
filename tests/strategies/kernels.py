"""Kernels of odd sizes, with tilings."""

from __future__ import annotations

from dataclasses import replace

from explorer.cost.bind_kernel import extents
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import Dim
from explorer.ir.kernel import Apply, Axis, Compute, Expr, Kernel, Read, TensorSpec, apply, at, axes
from explorer.ir.kernels.normal import normalise
from explorer.roller.tiling_space import space_of
from explorer.tile.lowering.lower import tensor_contraction
from tests.codegen import cases as forms
from tests.codegen.cases import BATCH, ENV, SEQ, Case
from tests.strategies.choices import Choices, Refused, generator
from tests.tile.programs import with_lanes
from tests.welder import groups

DEVICE = with_lanes(8)
WINDOWS = [(1, 1, 0), (1, 2, 0), (3, 1, 1), (3, 2, 1), (5, 1, 2), (3, 1, 0), (2, 2, 0), (2, 1, 1)]
EXTENTS = [1, 2, 4, 8, 12, 16, 24, 32]


# Kernels with a tiling that may break a rule.


@generator
def linears(c: Choices) -> Case:
    micro = _micro(c)
    tile = {"e0": c.number(1, 24)}
    if c.chance():
        tile["e1"] = micro.columns * c.number(1, 2)
    m = BATCH if c.chance() else c.number(1, 40)
    k = 640 if c.chance(0.1) else c.number(1, 24)
    n = 8 * c.number(1, 4) if c.chance() else c.number(1, 90)
    function = c.one(["relu", "none", "erf", "root", "two"])
    return forms.linear(m, k, n, function, tile, micro, c.one([0, 4, 9]))


@generator
def convolutions(c: Choices) -> Case:
    size, stride, pad = c.one(WINDOWS)
    groups = c.one([1, 1, 2, 3])
    h, w = size + c.one([0, 1, 2, 4, 8]), size + c.one([0, 1, 2, 5, 8, 14])
    ci, co = groups * c.one([1, 2, 3, 5, 8]), groups * c.one([1, 2, 5, 8, 13, 16, 20, 33])
    dilation = c.one([1, 1, 2]) if size > 1 and 2 * size <= min(h, w) + 1 else 1
    tile = {"e1": c.number(1, 5)} if groups == 1 else {}
    relu, micro, n = c.chance(), _micro(c), c.one([1, 1, 2, 3])
    return forms.conv(h, w, ci, co, size, stride, pad, groups, dilation, relu, tile, micro, n)


@generator
def attentions(c: Choices) -> Case:
    """Two products a head, one head after another where a tile has several."""
    b, s = (BATCH, SEQ) if c.chance(0.3) else (c.number(1, 2), c.number(1, 33))
    tile = {"ob": 1, "oh": 1, "oi": c.number(1, 24)}
    return forms.attention(b, s, c.number(1, 4), c.one([4, 8, 11, 16, 33]), tile)


@generator
def others(c: Choices) -> Case:
    n, tile = c.number(1, 24), c.number(1, 24)
    match c.one(["softmax", "norm", "pool", "transpose", "concat", "attention"]):
        case "softmax":
            return forms.softmax(c.number(1, 3), n, {"s1": tile})
        case "norm":
            return forms.layer_norm(c.number(1, 24), n, {"s0": tile})
        case "pool":
            rows = {"e1": c.number(1, 4)}
            return forms.pool(c.number(4, 9), n, 3, c.number(1, 2), 1, c.one(["max", "sum"]), rows)
        case "transpose":
            shape = (c.number(1, 3), c.number(1, 24), n)
            return forms.transpose(shape, tuple(c.permutation(3)), {"a0": tile})
        case "concat":
            return forms.concat(tuple(c.some([1, 2, 3, 4], 1, 3)), c.number(0, 2), (2, 3, 5))
    return attentions.make(c)


@generator
def cases(c: Choices) -> Case:
    """A kernel of any kind."""
    return c.one([linears, convolutions, others]).make(c)


def _micro(c: Choices) -> Micro:
    return Micro(c.number(1, 14), c.number(1, 2), c.one([4, 8, 16]))


# Contractions with a tiling that Roller may choose.


def product(
    batch: tuple[int, ...], m: tuple[Dim, ...], n: int, k: int, b: str, lies: str, after: str
) -> Kernel:
    """Rows of one or more axes; the right operand constant or not, turned or not; results turned,
    so that rows are dense in them, or not; an epilogue that reads what may change.
    """
    lead = axes("b", batch)
    rows, j, r = axes("i", m), Axis("j", n), Axis("k", k)
    right = (*lead, j, r) if b.endswith("turned") else (*lead, r, j)
    scaled = Apply("mul", (at("x", (*lead, *rows, r)), at("w", right)))
    total = Compute("t", (*lead, *rows, j), scaled, (r,), "sum")
    e = axes("e", (*batch, *m, n))
    body: dict[str, Expr] = {
        "": at("t", e),
        "relu": apply("max", at("t", e), 0.0),
        "residual": Apply("add", (at("t", e), at("z", e))),
        "tanh": Apply("tanh", (at("t", e),)),
    }
    order = (*range(len(batch)), len(e) - 1, *range(len(batch), len(e) - 1))
    stored = tuple(e[d] for d in (order if lies == "turned" else range(len(e))))
    last = Compute("y", e, body[after], store=tuple(var(a.name) for a in stored))
    shapes = {
        "x": (*batch, *m, k),
        "w": tuple(a.extent for a in right),
        "z": (*batch, *m, n),
        "t": (*batch, *m, n),
        "y": tuple(a.extent for a in stored),
    }
    known = frozenset({"w"} if b.startswith("constant") else set())
    return Kernel("product", forms.specs(**shapes), (total, last), ("x", "w", "z"), ("y",), known)


@generator
def products(c: Choices) -> Case:
    batch = tuple(c.some([1, 2, 3], 0, 2))
    few = [1, 2, 3, 4, 7] if len(batch) == 2 else [1, 2, 5, 7, 13, 16, 37]
    m: tuple[Dim, ...] = tuple(c.some(few, 1, 3))
    if c.chance(0.17):
        m = (BATCH, *m[1:])
    b = c.one(["constant", "constant turned", "open", "open turned"])
    lies, after = c.one(["", "turned"]), c.one(["", "relu", "residual", "tanh"])
    n, k = c.one([1, 2, 8, 13, 16, 24, 32, 33]), c.one([1, 3, 16, 64])
    kernel = product(batch, m, n, k, b, lies, after)
    return Case("product", kernel, Tiling(), {"batch": c.one([1, 5, 37])})


def contractions(kernel: Kernel) -> list[int]:
    return [n for n, c in enumerate(kernel.computes) if tensor_contraction(kernel, c) is not None]


@generator
def tiled(c: Choices, *kinds: generator[[], Case]) -> Case:
    """A contraction in normal form with a tiling out of its space, that breaks no rule."""
    case = c.one(kinds).make(c)
    case = replace(case, kernel=normalise(case.kernel))
    if not contractions(case.kernel):
        raise Refused
    space = space_of(case.kernel, DEVICE, ENV, case.sizes)
    for _ in range(4):  # most of a space may break a rule
        tiling = space.tiling(c.number(0, space.count - 1))
        if space.is_legal(tiling):
            return replace(case, tiling=tiling)
    raise Refused


# Kernels of which each element of an input is read, and tiles of any size.


def chain(m: int, n: int, k: int) -> tuple[Kernel, Kernel, Kernel]:
    """A product, its rectified rows, and both as one kernel."""
    first = groups.matmul(m, k, n)
    i, j = first.computes[0].axes
    relu = Compute("z", (i, j), apply("max", at("y", (i, j)), 0.0))
    y, z = first.spec("y"), TensorSpec("z", (m, n))
    second = Kernel("relu", (y, z), (relu,), ("y",), ("z",))
    both = Kernel("both", (*first.tensors, z), (*first.computes, relu), ("a", "b"), ("z",))
    return first, second, both


def convolution(channels: int, size: int, window: int, stride: int) -> Kernel:
    """A padded convolution whose windows meet or overlap."""
    out = (size + 2 * (window // 2) - window) // stride + 1
    o, h, w = Axis("o", 8), Axis("h", out), Axis("w", out)
    c, p, q = Axis("c", channels), Axis("p", window), Axis("q", window)
    y, x = (var(a) * stride + var(b) - window // 2 for a, b in ("hp", "wq"))
    scaled = apply("mul", Read("x", (var("c"), y, x), 0.0), at("f", (o, c, p, q)))
    shapes = {"x": (channels, size, size), "f": (8, channels, window, window), "y": (8, out, out)}
    return groups.kernel("conv", [Compute("y", (o, h, w), scaled, (c, p, q), "sum")], shapes)


@generator
def whole_kernels(c: Choices) -> Kernel:
    m, n, k = c.one(EXTENTS), c.one(EXTENTS), c.one(EXTENTS)
    match c.one(["matmul", "chain", "convolution"]):
        case "matmul":
            return groups.matmul(m, k, n)
        case "chain":
            return chain(m, n, k)[2]
    window = c.one([1, 3, 5])
    stride = c.number(1, max(1, window - 1))
    size = c.number(1, 6) * stride + window - 2 * (window // 2)  # no pixel is left out
    return convolution(c.number(1, 4), size, window, stride)


@generator
def tiles(c: Choices, kernel: Kernel, divide: bool = False) -> dict[str, int]:
    """Sizes along the axes of the last compute; where they `divide` these, no tile is partial."""
    return {
        name: c.one([n for n in range(1, extent + 1) if not divide or extent % n == 0])
        for name, extent in extents(kernel).items()
    }
