"""Sample kernels of more classes of operators than `explorer.measure.fit` has, to test predictions.

Images are channels-last, as the layout pass leaves them; weights and biases are constants.
"""

from __future__ import annotations

from explorer.ir.affine import var
from explorer.ir.dims import Dim
from explorer.ir.kernel import Apply, Axis, Compute, Const, Kernel, Read, apply, at, axes
from explorer.measure.fit import sample_kernel


def batched_product(b: int, m: int, k: int, n: int, turned: bool = False) -> Kernel:
    """Return `y[b, m, n] = sum over k of q[b, m, k] * v[b, k, n]`; `turned`: of `v[b, n, k]`."""
    o, i, j, r = Axis("b", b), Axis("i", m), Axis("j", n), Axis("k", k)
    right = (o, j, r) if turned else (o, r, j)
    value = Apply("mul", (at("q", (o, i, r)), at("v", right)))
    shapes: dict[str, tuple[Dim, ...]]
    shapes = {"q": (b, m, k), "v": (b, n, k) if turned else (b, k, n), "y": (b, m, n)}
    return sample_kernel(
        "batched", shapes, (Compute("y", (o, i, j), value, (r,), "sum"),), ("q", "v")
    )


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
    return sample_kernel("convolution", shapes, computes, ("x", "w", "b"), ("w", "b"))


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
    return sample_kernel("pooling", shapes, (compute,), ("x",))


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
    return sample_kernel("layer norm", shapes, computes, ("x", "g", "b"), ("g", "b"))


def reduction(rows: int, columns: int, axis: int, combiner: str = "sum") -> Kernel:
    """Return a matrix summed along its rows (axis 1) or its columns (axis 0)."""
    both = (Axis("i", rows), Axis("j", columns))
    outer, reduced = (both[:1], both[1:]) if axis else (both[1:], both[:1])
    compute = Compute("y", outer, at("x", both), reduced, combiner)
    shapes: dict[str, tuple[Dim, ...]]
    shapes = {"x": (rows, columns), "y": (rows if axis else columns,)}
    return sample_kernel("reduction", shapes, (compute,), ("x",))


def transpose(shape: tuple[int, ...], order: tuple[int, ...]) -> Kernel:
    """Return a permutation of dims in memory."""
    out = tuple(shape[d] for d in order)
    a = axes("a", out)
    index = tuple(var(a[order.index(d)].name) for d in range(len(shape)))
    shapes: dict[str, tuple[Dim, ...]] = {"x": shape, "y": out}
    return sample_kernel("transpose", shapes, (Compute("y", a, Read("x", index)),), ("x",))
