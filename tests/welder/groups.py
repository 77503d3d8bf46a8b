"""Groups as kernels, small enough to be executed element by element."""

from __future__ import annotations

from explorer.ir.affine import Affine, var
from explorer.ir.kernel import Axis, Compute, Expr, Kernel, Read, TensorSpec, apply, at


def kernel(
    name: str, computes: list[Compute], shapes: dict[str, tuple[int, ...]], constants: str = ""
) -> Kernel:
    """A kernel whose inputs are the tensors that no compute writes."""
    made = {c.out for c in computes}
    inputs = tuple(n for n in shapes if n not in made)
    tensors = tuple(TensorSpec(n, s) for n, s in shapes.items())
    return Kernel(
        name, tensors, tuple(computes), inputs, (computes[-1].out,), frozenset(constants.split())
    )


def product(out: str, a: str, b: str, i: Axis, j: Axis, k: Axis) -> Compute:
    """A matrix product."""
    return Compute(out, (i, j), apply("mul", at(a, (i, k)), at(b, (k, j))), (k,), "sum")


def matmul(m: int, k: int, n: int) -> Kernel:
    """A product alone."""
    i, j, d = Axis("i", m), Axis("j", n), Axis("d", k)
    shapes = {"a": (m, k), "b": (k, n), "y": (m, n)}
    return kernel("matmul", [product("y", "a", "b", i, j, d)], shapes)


def softmax_of(x: str, i: Axis, j: Axis) -> list[Compute]:
    """Rows that sum to one."""
    return [
        Compute("top", (i,), at(x, (i, j)), (j,), "max"),
        Compute("e", (i, j), apply("exp", apply("sub", at(x, (i, j)), at("top", (i,))))),
        Compute("total", (i,), at("e", (i, j)), (j,), "sum"),
        Compute("y", (i, j), apply("div", at("e", (i, j)), at("total", (i,)))),
    ]


def matmul_softmax(m: int, k: int, n: int) -> Kernel:
    """The Welder paper's example: a product and a softmax over its rows."""
    i, j, d = Axis("i", m), Axis("j", n), Axis("d", k)
    shapes = {"a": (m, k), "b": (k, n), "t": (m, n), "top": (m,), "e": (m, n), "total": (m,)}
    computes = [product("t", "a", "b", i, j, d), *softmax_of("t", i, Axis("l", n))]
    return kernel("matmul_softmax", computes, shapes | {"y": (m, n)})


def softmax(m: int, n: int) -> Kernel:
    """A softmax alone."""
    shapes = {"x": (m, n), "top": (m,), "e": (m, n), "total": (m,), "y": (m, n)}
    return kernel("softmax", softmax_of("x", Axis("i", m), Axis("j", n)), shapes)


def layer_norm(m: int, n: int) -> Kernel:
    """Mean, variance, and what is left."""
    i, j = Axis("i", m), Axis("j", n)
    centred = apply("sub", at("x", (i, j)), apply("mul", at("s", (i,)), 1.0 / n))
    root = apply("sqrt", apply("add", apply("mul", at("q", (i,)), 1.0 / n), 1e-5))
    scaled = apply("add", apply("mul", apply("div", centred, root), at("w", (j,))), at("b", (j,)))
    computes = [
        Compute("s", (i,), at("x", (i, j)), (j,), "sum"),
        Compute("q", (i,), apply("mul", centred, centred), (j,), "sum"),
        Compute("y", (i, j), scaled),
    ]
    shapes = {"x": (m, n), "w": (n,), "b": (n,), "s": (m,), "q": (m,), "y": (m, n)}
    return kernel("layer_norm", computes, shapes)


def chain(m: int, n: int) -> Kernel:
    """Six element-wise operators and a normalisation by the largest of each row."""
    i, j = Axis("i", m), Axis("j", n)
    e: Expr = at("x", (i, j))
    for op, value in (("mul", 2.0), ("add", 1.0), ("max", 0.0), ("sub", 0.5), ("mul", 0.25)):
        e = apply(op, e, value)
    computes = [
        Compute("t", (i, j), apply("add", e, at("r", (i, j)))),
        Compute("top", (i,), apply("abs", at("t", (i, j))), (j,), "max"),
        Compute("y", (i, j), apply("div", at("t", (i, j)), at("top", (i,)))),
    ]
    shapes = {"x": (m, n), "r": (m, n), "t": (m, n), "top": (m,), "y": (m, n)}
    return kernel("chain", computes, shapes)


def window(tensor: str, places: list[tuple[Axis, Axis, int, int]], c: Axis, pad: bool) -> Read:
    """A load around a place: (axis, window axis, stride, padding) for each dim, channels last."""
    index: list[Affine] = [var(a.name) * s + var(p.name) - q for a, p, s, q in places]
    return Read(tensor, (*index, var(c.name)), 0.0 if pad else None)


def conv(
    out: str, x: str, w: str, size: tuple[int, int, int], depth: int, width: int, stride: int = 1
) -> Compute:
    """A padded convolution, channels last: `size` is (height, width, channels) of the output."""
    h, v, o = (Axis(f"{n}_{out}", s) for n, s in zip("hvo", size, strict=True))
    p, q, c = Axis(f"p_{out}", width), Axis(f"q_{out}", width), Axis(f"c_{out}", depth)
    pad = width // 2
    load = window(x, [(h, p, stride, pad), (v, q, stride, pad)], c, bool(pad))
    return Compute(out, (h, v, o), apply("mul", load, at(w, (p, q, c, o))), (p, q, c), "sum")


def relu(out: str, x: str, size: tuple[int, int, int]) -> Compute:
    """What is above zero."""
    over = tuple(Axis(f"{n}_{out}", s) for n, s in zip("hvo", size, strict=True))
    return Compute(out, over, apply("max", at(x, over), 0.0))


def pool(out: str, x: str, size: tuple[int, int, int], width: int, stride: int) -> Compute:
    """The largest of each window."""
    h, v, o = (Axis(f"{n}_{out}", s) for n, s in zip("hvo", size, strict=True))
    p, q = Axis(f"p_{out}", width), Axis(f"q_{out}", width)
    load = window(x, [(h, p, stride, 0), (v, q, stride, 0)], o, False)
    return Compute(out, (h, v, o), load, (p, q), "max")


def conv_relu_pool(size: int, depth: int, channels: int, width: int = 2) -> Kernel:
    """A 3x3 convolution, what is above zero, and the largest of windows that are two apart."""
    whole, half = (size, size, channels), ((size - width) // 2 + 1,) * 2 + (channels,)
    computes = [
        conv("t", "x", "w", whole, depth, 3), relu("r", "t", whole), pool("y", "r", half, width, 2)
    ]  # fmt: skip
    shapes = {"x": (size, size, depth), "w": (3, 3, depth, channels), "t": whole, "r": whole}
    return kernel("conv_relu_pool", computes, shapes | {"y": half})


def conv_conv(size: int, depth: int, channels: int, stride: int = 1) -> Kernel:
    """Two convolutions with a halo between them."""
    whole, last = (size, size, channels), (-(-size // stride),) * 2 + (depth,)
    computes = [
        conv("t", "x", "w", whole, depth, 3), conv("y", "t", "v", last, channels, 3, stride)
    ]  # fmt: skip
    shapes = {"x": (size, size, depth), "w": (3, 3, depth, channels)}
    return kernel(
        "conv_conv", computes, {**shapes, "v": (3, 3, channels, depth), "t": whole, "y": last}
    )


def attention(rows: int, keys: int, depth: int) -> Kernel:
    """Scores of rows against keys, a softmax over them, and the mean of values."""
    i, j, d = Axis("i", rows), Axis("j", keys), Axis("d", depth)
    scores = apply("mul", at("q", (i, d)), at("k", (j, d)))
    last = Axis("l", keys)
    o, m = Axis("o", depth), Axis("m", keys)
    weighted = apply("mul", at("y", (i, m)), at("v", (m, o)))
    computes = [
        Compute("t", (i, j), scores, (d,), "sum"),
        *softmax_of("t", i, last),
        Compute("z", (i, o), weighted, (m,), "sum"),
    ]
    shapes = {"q": (rows, depth), "k": (keys, depth), "v": (keys, depth), "t": (rows, keys)}
    inner = {"top": (rows,), "e": (rows, keys), "total": (rows,), "y": (rows, keys)}
    return kernel("attention", computes, {**shapes, **inner, "z": (rows, depth)})


def transposed(m: int, n: int) -> Kernel:
    """A map over a transposed tensor, and its transpose again."""
    i, j = Axis("i", m), Axis("j", n)
    k, l = Axis("k", n), Axis("l", m)  # noqa: E741
    computes = [
        Compute("t", (i, j), apply("exp", at("x", (j, i)))),
        Compute("y", (k, l), apply("add", at("t", (l, k)), 1.0)),
    ]
    return kernel("transposed", computes, {"x": (n, m), "t": (m, n), "y": (n, m)})


def mlp(m: int, k: int, n: int) -> Kernel:
    """Two products with what is above zero between them."""
    i, j, d = Axis("i", m), Axis("j", n), Axis("d", k)
    o, h = Axis("o", k), Axis("h", n)
    above = apply("max", at("t", (i, j)), 0.0)
    computes = [
        product("t", "x", "w", i, j, d),
        Compute("r", (i, j), above),
        product("y", "r", "v", i, o, h),
    ]
    shapes = {"x": (m, k), "w": (k, n), "v": (n, k), "t": (m, n), "r": (m, n), "y": (m, k)}
    return kernel("mlp", computes, shapes)
