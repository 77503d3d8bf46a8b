"""Kernels with several outputs, and values for them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.ir.affine import var
from explorer.ir.dims import Dim, Shape, Sizes, evaluate_shape
from explorer.ir.kernel import Axis, Compute, Expr, Kernel, Read, TensorSpec, apply, at, axes
from explorer.ir.types import numpy_dtype

Update = tuple[tuple[str, str], ...]
IN_PLACE: Update = (("x1", "x"), ("v1", "v"), ("h1", "h"))


def adam(shape: Shape, updates: Update = ()) -> Kernel:
    """A step of Adam: both moments, and the parameter of which its gradient has a part."""
    over = axes("i", shape)
    g = apply("add", apply("mul", at("x", over), 0.25), at("g", over))
    mean = apply("add", apply("mul", at("v", over), 0.75), apply("mul", g, 0.25))
    square = apply("add", apply("mul", at("h", over), 0.5), apply("mul", apply("mul", g, g), 0.5))
    size = apply("add", apply("sqrt", at("h1", over)), 0.5)
    moved = apply("sub", at("x", over), apply("div", at("v1", over), size))
    names = ("x", "g", "v", "h", "x1", "v1", "h1")
    return Kernel(
        "adam",
        tuple(TensorSpec(n, shape) for n in names),
        (Compute("v1", over, mean), Compute("h1", over, square), Compute("x1", over, moved)),
        names[:4],
        ("x1", "v1", "h1"),
        updates=updates,
    )


def product(m: Dim, n: Dim, k: Dim) -> Kernel:
    """A product of matrices, and what is above zero of it."""
    i, j, over = Axis("i", m), Axis("j", n), Axis("k", k)
    expr = apply("mul", Read("a", (var("i"), var("k"))), Read("b", (var("k"), var("j"))))
    made = Compute("t", (i, j), expr, (over,), "sum")
    return Kernel(
        "product",
        tuple(
            TensorSpec(t, s) for t, s in zip("abty", ((m, k), (k, n), (m, n), (m, n)), strict=True)
        ),
        (made, Compute("y", (i, j), apply("max", at("t", (i, j)), 0.0))),
        ("a", "b"),
        ("y", "t"),
    )


def beside(m: Dim, n: Dim, k: Dim) -> Kernel:
    """What is above zero of a product, turned, in its epilogue; and what has nothing to do with it,
    over the same axes, which are not the product's.
    """
    first, over = product(m, n, k), (Axis("p", n), Axis("q", m))
    return Kernel(
        "beside",
        (*first.tensors[:3], *(TensorSpec(t, (n, m)) for t in "yzr")),
        (
            first.computes[0],
            Compute("y", over, apply("max", at("t", over[::-1]), 0.0)),
            Compute("z", over, apply("mul", at("r", over), 2.0)),
        ),
        ("a", "b", "r"),
        ("y", "z"),
    )


def ends(m: Dim, n: Dim) -> Kernel:
    """The largest and the smallest of each row, and their distance."""
    i, r = Axis("i", m), Axis("r", n)
    x = Read("x", (var("i"), var("r")))
    gap = apply("sub", at("top", (i,)), at("low", (i,)))
    shapes: dict[str, Shape] = {"x": (m, n), "top": (m,), "low": (m,), "gap": (m,)}
    return Kernel(
        "ends",
        tuple(TensorSpec(t, s) for t, s in shapes.items()),
        (
            Compute("top", (i,), x, (r,), "max"),
            Compute("low", (i,), x, (r,), "min"),
            Compute("gap", (i,), gap),
        ),
        ("x",),
        ("low", "top", "gap"),
    )


def shares(m: Dim, n: Dim) -> Kernel:
    """A softmax, with the powers that it is the shares of."""
    i, j, r = Axis("i", m), Axis("j", n), Axis("r", n)
    x = Read("x", (var("i"), var("r")))
    power = apply("exp", apply("sub", at("x", (i, j)), at("top", (i,))))
    shapes: dict[str, Shape] = {t: (m, n) for t in ("x", "e", "power", "y")}
    shapes |= {"top": (m,), "total": (m,)}
    return Kernel(
        "shares",
        tuple(TensorSpec(t, s) for t, s in shapes.items()),
        (
            Compute("top", (i,), x, (r,), "max"),
            Compute("e", (i, j), power),
            Compute("total", (i,), Read("e", (var("i"), var("r"))), (r,), "sum"),
            Compute("power", (i, j), at("e", (i, j))),
            Compute("y", (i, j), apply("div", at("e", (i, j)), at("total", (i,)))),
        ),
        ("x",),
        ("power", "y"),
    )


def signs(shape: Shape) -> Kernel:
    """Outputs of three dtypes: whole numbers, what is above zero, and half of it."""
    over = axes("i", shape)
    x: Expr = at("x", over)
    dtypes = {"x": "float32", "whole": "int32", "above": "bool", "half": "float64"}
    half = apply("cast_float64", apply("mul", x, 0.5))
    return Kernel(
        "signs",
        tuple(TensorSpec(t, shape, d) for t, d in dtypes.items()),
        (
            Compute("whole", over, apply("cast_int32", x)),
            Compute("above", over, apply("gt", x, 0.0)),
            Compute("half", over, half),
        ),
        ("x",),
        ("whole", "above", "half"),
    )


def values(kernel: Kernel, sizes: Sizes, seed: int = 0) -> Mapping[str, np.ndarray]:
    """Inputs between -4 and 4, with NaN and infinities where the kernel only maps."""
    rng = np.random.default_rng(seed)
    found = {}
    for name in kernel.inputs:
        shape = evaluate_shape(kernel.shape(name), sizes)
        made = (rng.random(shape) * 8 - 4).astype(numpy_dtype(kernel.dtype(name)))
        found[name] = np.abs(made) if name == "h" else made
        if kernel.name == "adam" and made.size > 9:
            made.reshape(-1)[[1, 4, 8]] = np.nan, np.inf, -np.inf
    return found
