"""Sample kernels of every class of operator, to measure a machine and to test predictions.

Images are channels-last, as the layout pass leaves them; weights and biases are constants.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.ir.affine import var
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Const,
    Expr,
    Kernel,
    Read,
    TensorSpec,
    apply,
    at,
    axes,
)
from explorer.ir.kernels.normal import normalise
from explorer.ir.shapes.dims import Dim


def _kernel(
    name: str,
    shapes: dict[str, tuple[Dim, ...]],
    computes: Sequence[Compute],
    inputs: tuple[str, ...],
    constants: Sequence[str] = (),
) -> Kernel:
    """Return a normalised kernel with one output `y`."""
    tensors = tuple(TensorSpec(n, s) for n, s in shapes.items())
    return normalise(Kernel(name, tensors, tuple(computes), inputs, ("y",), frozenset(constants)))


def product(m: Dim, k: Dim, n: Dim, constant: bool = True) -> Kernel:
    """Return `y[m, n] = max(sum over k of x[m, k] * w[k, n] + b[n], 0)`."""
    i, j, r = Axis("i", m), Axis("j", n), Axis("k", k)
    summed = Compute("t", (i, j), Apply("mul", (at("x", (i, r)), at("w", (r, j)))), (r,), "sum")
    e = axes("e", (m, n))
    out = Compute("y", e, apply("max", Apply("add", (at("t", e), at("b", e[1:]))), 0.0))
    shapes: dict[str, tuple[Dim, ...]]
    shapes = {"x": (m, k), "w": (k, n), "b": (n,), "t": (m, n), "y": (m, n)}
    constants = ("w", "b") if constant else ("b",)
    return _kernel("product", shapes, (summed, out), ("x", "w", "b"), constants)


def batched_product(b: int, m: int, k: int, n: int, turned: bool = False) -> Kernel:
    """Return `y[b, m, n] = sum over k of q[b, m, k] * v[b, k, n]`; `turned`: of `v[b, n, k]`."""
    o, i, j, r = Axis("b", b), Axis("i", m), Axis("j", n), Axis("k", k)
    right = (o, j, r) if turned else (o, r, j)
    value = Apply("mul", (at("q", (o, i, r)), at("v", right)))
    shapes: dict[str, tuple[Dim, ...]]
    shapes = {"q": (b, m, k), "v": (b, n, k) if turned else (b, k, n), "y": (b, m, n)}
    return _kernel("batched", shapes, (Compute("y", (o, i, j), value, (r,), "sum"),), ("q", "v"))


def convolution(
    pixels: int, inner: int, outer: int, size: int, stride: int = 1, groups: int = 1
) -> Kernel:
    """Return a square convolution over a square image with bias and ReLU.

    `groups` is 1, or equal to `inner` and `outer`: a depthwise convolution, whose weights are
    channels-last too.
    """
    pad, deep = size // 2, groups > 1
    out = (pixels + 2 * pad - size) // stride + 1
    y, x = (var(p) * stride + var(f"k{p}") - pad for p in "hw")
    load = Read("x", (y, x, var("o") if deep else var("c")), 0.0 if pad else None)
    places = ("kh", "kw", "o") if deep else ("o", "c", "kh", "kw")
    weight = Read("w", tuple(var(p) for p in places))
    over = [Axis("kh", size), Axis("kw", size), *([] if deep else [Axis("c", inner)])]
    points = (Axis("h", out), Axis("w", out), Axis("o", outer))
    summed = Compute("t", points, Apply("mul", (load, weight)), tuple(over), "sum")
    e = axes("e", (out, out, outer))
    bias = Apply("add", (at("t", e), at("b", e[2:])))
    shapes: dict[str, tuple[Dim, ...]] = {
        "x": (pixels, pixels, inner),
        "w": (size, size, outer) if deep else (outer, inner, size, size),
        "b": (outer,),
        "t": (out, out, outer),
        "y": (out, out, outer),
    }
    computes = (summed, Compute("y", e, apply("max", bias, 0.0)))
    return _kernel("convolution", shapes, computes, ("x", "w", "b"), ("w", "b"))


def pooling(pixels: int, channels: int, size: int, stride: int, combiner: str = "max") -> Kernel:
    """Return the maximum or the sum of square windows."""
    pad = size // 2 if combiner == "max" else 0
    out = (pixels + 2 * pad - size) // stride + 1
    y, x = (var(p) * stride + var(f"k{p}") - pad for p in "hw")
    load = Read("x", (y, x, var("o")), float("-inf") if pad else None)
    points = (Axis("h", out), Axis("w", out), Axis("o", channels))
    compute = Compute("y", points, load, (Axis("kh", size), Axis("kw", size)), combiner)
    shapes: dict[str, tuple[Dim, ...]]
    shapes = {"x": (pixels, pixels, channels), "y": (out, out, channels)}
    return _kernel("pooling", shapes, (compute,), ("x",))


def softmax(rows: Dim, columns: Dim) -> Kernel:
    """Return a row-wise softmax: maximum, exponentials, their sum, quotients."""
    lead, r = axes("s", (rows,)), Axis("r", columns)
    every = (*lead, r)
    exponential = Apply("exp", (Apply("sub", (at("x", every), at("top", lead))),))
    computes = (
        Compute("top", lead, at("x", every), (r,), "max"),
        Compute("e", every, exponential),
        Compute("total", lead, at("e", every), (r,), "sum"),
        Compute("y", every, Apply("div", (at("e", every), at("total", lead)))),
    )
    shapes: dict[str, tuple[Dim, ...]] = dict.fromkeys(("x", "e", "y"), (rows, columns))
    return _kernel("softmax", shapes | {"top": (rows,), "total": (rows,)}, computes, ("x",))


def layer_norm(rows: Dim, columns: int) -> Kernel:
    """Return a row-wise normalisation to mean 0 and variance 1, scaled and shifted."""
    lead, r = axes("s", (rows,)), Axis("r", columns)
    every = (*lead, r)
    centred = Apply("sub", (at("x", every), apply("mul", at("mean", lead), 1 / columns)))
    variance = apply("add", apply("mul", at("square", lead), 1 / columns), 1e-5)
    scale = Apply("div", (Const(1.0), Apply("sqrt", (variance,))))
    scaled = Apply("mul", (Apply("mul", (centred, scale)), at("g", (r,))))
    computes = (
        Compute("mean", lead, at("x", every), (r,), "sum"),
        Compute("square", lead, Apply("mul", (centred, centred)), (r,), "sum"),
        Compute("y", every, Apply("add", (scaled, at("b", (r,))))),
    )
    shapes: dict[str, tuple[Dim, ...]] = {
        **dict.fromkeys(("x", "y"), (rows, columns)),
        **dict.fromkeys(("g", "b"), (columns,)),
        **dict.fromkeys(("mean", "square"), (rows,)),
    }
    return _kernel("layer norm", shapes, computes, ("x", "g", "b"), ("g", "b"))


def reduction(rows: int, columns: int, axis: int, combiner: str = "sum") -> Kernel:
    """Return a matrix summed along its rows (axis 1) or its columns (axis 0)."""
    both = (Axis("i", rows), Axis("j", columns))
    outer, reduced = (both[:1], both[1:]) if axis else (both[1:], both[:1])
    compute = Compute("y", outer, at("x", both), reduced, combiner)
    shapes: dict[str, tuple[Dim, ...]]
    shapes = {"x": (rows, columns), "y": (rows if axis else columns,)}
    return _kernel("reduction", shapes, (compute,), ("x",))


def elementwise(shape: tuple[Dim, ...], *functions: str) -> Kernel:
    """Return a chain of functions of one operand, or of two, as "add", with a second tensor."""
    a = axes("a", shape)
    value: Expr = at("x", a)
    for name in functions:
        two = name in ("add", "sub", "mul", "div", "max", "min")
        value = Apply(name, (value, at("z", a)) if two else (value,))
    shapes = dict.fromkeys(("x", "z", "y"), shape)
    return _kernel("elementwise", shapes, (Compute("y", a, value),), ("x", "z"))


def transpose(shape: tuple[int, ...], order: tuple[int, ...]) -> Kernel:
    """Return a permutation of dims in memory."""
    out = tuple(shape[d] for d in order)
    a = axes("a", out)
    index = tuple(var(a[order.index(d)].name) for d in range(len(shape)))
    shapes: dict[str, tuple[Dim, ...]] = {"x": shape, "y": out}
    return _kernel("transpose", shapes, (Compute("y", a, Read("x", index)),), ("x",))


def transpose_of(rows: Dim, columns: Dim) -> Kernel:
    """Return a matrix transpose: `y[i, j] = x[j, i]`."""
    a = axes("a", (rows, columns))
    shapes: dict[str, tuple[Dim, ...]] = {"x": (columns, rows), "y": (rows, columns)}
    read = Read("x", (var("a1"), var("a0")))
    return _kernel("transpose", shapes, (Compute("y", a, read),), ("x",))
