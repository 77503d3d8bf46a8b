"""Kernels of many forms, as data, with odd sizes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, evaluate_shape, symbol
from explorer.ir.dtypes import is_float, numpy_dtype
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Const,
    Expr,
    IndexValue,
    Kernel,
    Read,
    TensorSpec,
    apply,
    at,
    axes,
)
from explorer.ir.kernels.scatter import scattered

BATCH, SEQ = symbol("batch"), symbol("seq")
ENV = ShapeEnv((SymbolBound("batch", 1, 64), SymbolBound("seq", 2, 512)))


@dataclass(frozen=True)
class Case:
    """A kernel, a tiling, and a binding."""

    name: str
    kernel: Kernel
    tiling: Tiling
    sizes: dict[str, int] = field(default_factory=dict)
    tolerance: float = 1e-5


def specs(**shapes: tuple[Dim, ...]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(n, s) for n, s in shapes.items())


def arrays(case: Case, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    out = {}
    for name in case.kernel.inputs:
        spec = case.kernel.spec(name)
        shape = evaluate_shape(spec.shape, case.sizes)
        if is_float(spec.dtype):
            out[name] = rng.standard_normal(shape).astype(numpy_dtype(spec.dtype))
        else:
            out[name] = rng.integers(0, 2 if spec.dtype == "bool" else 5, shape).astype(spec.dtype)
    return out


def linear(
    m: Dim,
    k: int,
    n: int,
    function: str,
    tile: dict[str, int],
    micro: Micro = Micro(),
    block: int = 0,
) -> Case:
    i, j, r = Axis("i", m), Axis("j", n), Axis("k", k)
    product = Compute("t", (i, j), Apply("mul", (at("x", (i, r)), at("w", (r, j)))), (r,), "sum")
    e = axes("e", (m, n))
    summed = Apply("add", (at("t", e), at("b", e[1:])))
    body: dict[str, Expr] = {
        "relu": apply("max", summed, 0.0),
        "none": summed,
        "erf": Apply("erf", (summed,)),
        "root": apply("sqrt", apply("max", summed, 0.0)),
        "two": Apply("add", (apply("min", summed, 6.0), at("r", e))),
    }
    out = Compute("y", e, body[function])
    tensors = specs(x=(m, k), w=(k, n), b=(n,), r=(m, n), t=(m, n), y=(m, n))
    inputs = ("x", "w", "b", "r")
    kernel = Kernel("linear", tensors, (product, out), inputs, ("y",), frozenset({"w", "b"}))
    return Case(
        f"linear {m}x{k}x{n} {function} {tile} {micro.rows}x{micro.vectors} {block}",
        kernel,
        Tiling(tuple(tile.items()), micro, False, block),
        {"batch": 37},
    )


def conv(
    h: int,
    w: int,
    ci: int,
    co: int,
    size: int,
    stride: int,
    pad: int,
    groups: int = 1,
    dilation: int = 1,
    relu: bool = True,
    tile: dict[str, int] | None = None,
    micro: Micro = Micro(),
    n: int = 1,
) -> Case:
    reach = (size - 1) * dilation + 1
    ho, wo = (h + 2 * pad - reach) // stride + 1, (w + 2 * pad - reach) // stride + 1
    ig, og = ci // groups, co // groups
    a = {
        k: Axis(k, e)
        for k, e in dict(n=n, h=ho, w=wo, g=groups, o=og, c=ig, kh=size, kw=size).items()
    }
    y, x = [var(p) * stride + var(f"k{p}") * dilation - pad for p in "hw"]
    fill = 0.0 if pad else None
    channel = var("g") * ig + var("c") if groups > 1 else var("c")
    if groups > 1 and ig == 1:
        channel = var("g")
    out_channel = var("g") * og + var("o") if groups > 1 else var("o")
    wc = () if groups > 1 and ig == 1 else (var("c"),)
    load = Read("x", (var("n"), y, x, channel), fill)
    weight = Read("w", (out_channel, *(wc or (Affine(),)), var("kh"), var("kw")))
    reduce = tuple(a[k] for k in (("kh", "kw") if groups > 1 and ig == 1 else ("c", "kh", "kw")))
    outer = tuple(a[k] for k in ("n", "h", "w", *(("g",) if groups > 1 else ()), "o"))
    c = Compute(
        "t",
        outer,
        Apply("mul", (load, weight)),
        reduce,
        "sum",
        (var("n"), var("h"), var("w"), out_channel),
    )
    e = axes("e", (n, ho, wo, co))
    value = Apply("add", (at("t", e), at("b", e[3:])))
    out = Compute("y", e, apply("max", value, 0.0) if relu else value)
    tensors = specs(
        x=(n, h, w, ci), w=(co, ig, size, size), b=(co,), t=(n, ho, wo, co), y=(n, ho, wo, co)
    )
    kernel = Kernel("conv", tensors, (c, out), ("x", "w", "b"), ("y",), frozenset({"w", "b"}))
    return Case(
        f"conv {n}x{h}x{w}x{ci}->{co} k{size} s{stride} p{pad} g{groups} d{dilation} {tile}",
        kernel,
        Tiling(tuple((tile or {}).items()), micro),
        tolerance=3e-5,
    )


def pool(
    h: int, c: int, size: int, stride: int, pad: int, combiner: str, tile: dict[str, int]
) -> Case:
    ho = (h + 2 * pad - size) // stride + 1
    a = axes("o", (1, ho, ho, c))
    r = axes("r", (size, size))
    index = (
        var("o0"),
        var("o1") * stride + var("r0") - pad,
        var("o2") * stride + var("r1") - pad,
        var("o3"),
    )
    fill = (0.0 if combiner == "sum" else float("-inf")) if pad else None
    c1 = Compute("s", a, Read("x", index, fill), r, combiner)
    e = axes("e", (1, ho, ho, c))
    kernel = Kernel(
        "pool",
        specs(x=(1, h, h, c), s=(1, ho, ho, c), y=(1, ho, ho, c)),
        (c1, Compute("y", e, apply("mul", at("s", e), 0.25))),
        ("x",),
        ("y",),
    )
    return Case(f"pool {h} {c} {size} {combiner}", kernel, Tiling(tuple(tile.items())))


def softmax_computes(x: str, y: str, lead: tuple[Axis, ...], r: Axis) -> tuple[Compute, ...]:
    top, e, total = f"{y}_max", f"{y}_exp", f"{y}_sum"
    return (
        Compute(top, lead, at(x, (*lead, r)), (r,), "max"),
        Compute(e, (*lead, r), Apply("exp", (Apply("sub", (at(x, (*lead, r)), at(top, lead))),))),
        Compute(total, lead, at(e, (*lead, r)), (r,), "sum"),
        Compute(
            y,
            (*lead, r),
            Apply("mul", (at(e, (*lead, r)), Apply("div", (Const(1.0), at(total, lead))))),
        ),
    )


def softmax(b: Dim, s: Dim, tile: dict[str, int]) -> Case:
    lead, r = axes("s", (b, s)), Axis("r", s)
    kernel = Kernel(
        "softmax",
        specs(x=(b, s, s), y_max=(b, s), y_exp=(b, s, s), y_sum=(b, s), y=(b, s, s)),
        softmax_computes("x", "y", lead, r),
        ("x",),
        ("y",),
    )
    return Case(
        f"softmax {b} {s} {tile}", kernel, Tiling(tuple(tile.items())), {"batch": 3, "seq": 37}
    )


def attention(
    b: Dim, s: Dim, heads: int, d: int, tile: dict[str, int], causal: bool = False
) -> Case:
    """q, k, v and the output are [batch, seq, heads * d]: transposes are index maps."""
    bb, h, i, j, k = Axis("b", b), Axis("h", heads), Axis("i", s), Axis("j", s), Axis("k", d)

    def head(t: str, row: str, col: str) -> Read:
        return Read(t, (var("b"), var(row), var("h") * d + var(col)))

    scores = Compute(
        "s", (bb, h, i, j), Apply("mul", (head("q", "i", "k"), head("k", "j", "k"))), (k,), "sum"
    )
    e = axes("e", (b, heads, s, s))
    scaled: Expr = apply("mul", at("s", e), d**-0.5)
    if causal:
        keep = Apply("ge", (IndexValue(var("e2")), IndexValue(var("e3"))))
        scaled = Apply("where", (keep, scaled, Const(float("-inf"))))
    scale = Compute("sc", e, scaled)
    lead, r = axes("m", (b, heads, s)), Axis("r", s)
    soft = softmax_computes("sc", "p", lead, r)
    o = (Axis("ob", b), Axis("oh", heads), Axis("oi", s), Axis("od", d))
    t = Axis("ot", s)
    pv = Compute(
        "y",
        o,
        Apply(
            "mul",
            (
                Read("p", (var("ob"), var("oh"), var("oi"), var("ot"))),
                Read("v", (var("ob"), var("ot"), var("oh") * d + var("od"))),
            ),
        ),
        (t,),
        "sum",
        (var("ob"), var("oi"), var("oh") * d + var("od")),
    )
    w = heads * d
    tensors = specs(
        q=(b, s, w),
        k=(b, s, w),
        v=(b, s, w),
        s=(b, heads, s, s),
        sc=(b, heads, s, s),
        p_max=(b, heads, s),
        p_exp=(b, heads, s, s),
        p_sum=(b, heads, s),
        p=(b, heads, s, s),
        y=(b, s, w),
    )
    kernel = Kernel("attention", tensors, (scores, scale, *soft, pv), ("q", "k", "v"), ("y",))
    return Case(
        f"attention {b} {s} {heads} {d} {tile} {causal}",
        kernel,
        Tiling(tuple(tile.items())),
        {"batch": 2, "seq": 37},
    )


def layer_norm(m: Dim, n: int, tile: dict[str, int]) -> Case:
    s, r = axes("s", (m,)), Axis("r", n)
    centred = Apply("sub", (at("x", (*s, r)), apply("mul", at("mean", s), 1 / n)))
    scale = Apply(
        "div", (Const(1.0), Apply("sqrt", (apply("add", apply("mul", at("sq", s), 1 / n), 1e-5),)))
    )
    computes = (
        Compute("mean", s, at("x", (*s, r)), (r,), "sum"),
        Compute("sq", s, Apply("mul", (centred, centred)), (r,), "sum"),
        Compute(
            "y",
            (*s, r),
            Apply(
                "add",
                (Apply("mul", (Apply("mul", (centred, scale)), at("g", (r,)))), at("b", (r,))),
            ),
        ),
    )
    kernel = Kernel(
        "norm",
        specs(x=(m, n), g=(n,), b=(n,), mean=(m,), sq=(m,), y=(m, n)),
        computes,
        ("x", "g", "b"),
        ("y",),
        frozenset({"g", "b"}),
    )
    return Case(f"layer norm {m} {n}", kernel, Tiling(tuple(tile.items())), {"batch": 7})


def transpose(shape: tuple[int, ...], order: tuple[int, ...], tile: dict[str, int]) -> Case:
    out = tuple(shape[d] for d in order)
    a = axes("a", out)
    index = tuple(var(a[order.index(d)].name) for d in range(len(shape)))
    kernel = Kernel(
        "transpose", specs(x=shape, y=out), (Compute("y", a, Read("x", index)),), ("x",), ("y",)
    )
    return Case(f"transpose {shape} {order}", kernel, Tiling(tuple(tile.items())))


def concat(parts: tuple[int, ...], dim: int, shape: tuple[int, ...]) -> Case:
    computes, start = [], 0
    total = sum(parts)
    out = tuple(total if d == dim else n for d, n in enumerate(shape))
    for k, n in enumerate(parts):
        a = tuple(
            Axis(f"c{d}" if d != dim else f"p{k}", n if d == dim else e)
            for d, e in enumerate(shape)
        )
        store = tuple(var(x.name) + (start if d == dim else 0) for d, x in enumerate(a))
        computes.append(Compute("y", a, at(f"x{k}", a), store=store))
        start += n
    tensors = tuple(
        TensorSpec(f"x{k}", tuple(n if d == dim else e for d, e in enumerate(shape)))
        for k, n in enumerate(parts)
    )
    kernel = Kernel(
        "concat",
        (*tensors, TensorSpec("y", out)),
        tuple(computes),
        tuple(t.name for t in tensors),
        ("y",),
    )
    return Case(f"concat {parts} {dim}", kernel, Tiling((("c0", 2),) if dim else ()))


def gather() -> Case:
    a = axes("a", (BATCH, SEQ, 24))
    index = Read("ids", (var("a0"), var("a1")))
    wrapped = Apply(
        "where",
        (Apply("lt", (index, Const(0, "int64"))), Apply("add", (index, Const(11, "int64"))), index),
    )
    kernel = Kernel(
        "gather",
        (
            TensorSpec("table", (11, 24)),
            TensorSpec("ids", (BATCH, SEQ), "int64"),
            TensorSpec("y", (BATCH, SEQ, 24)),
        ),
        (Compute("y", a, Read("table", (wrapped, var("a2")))),),
        ("table", "ids"),
        ("y",),
        frozenset({"table"}),
    )
    return Case("gather", kernel, Tiling((("a0", 1),)), {"batch": 3, "seq": 5})


def embedding_gradient(tile: dict[str, int]) -> Case:
    """Rows of a table's gradient: several land on one, some on none."""
    a, over = axes("a", (11, 24)), (Axis("b", BATCH), Axis("s", SEQ))
    row = Read("ids", (var("b"), var("s")))
    update = Read("dy", (var("b"), var("s"), var("a1")))
    kernel = Kernel(
        "embedding_gradient",
        (
            TensorSpec("ids", (BATCH, SEQ), "int64"),
            TensorSpec("dy", (BATCH, SEQ, 24)),
            TensorSpec("y", (11, 24)),
        ),
        (Compute("y", a, scattered(update, [(a[0], row)], "sum", "float32"), over, "sum"),),
        ("ids", "dy"),
        ("y",),
    )
    sizes = {"batch": 3, "seq": 5}
    return Case(f"embedding gradient {tile}", kernel, Tiling(tuple(tile.items())), sizes)


def largest_by_place(tile: dict[str, int]) -> Case:
    """`y[b, index[b, r, d], d] = max(x, u[b, r, d])`: each column has places of its own."""
    a, over = axes("a", (BATCH, 11, 6)), (Axis("r", 13),)
    index = (var("a0"), var("r"), var("a2"))
    every = tuple(var(x.name) for x in a)
    update = scattered(Read("u", index), [(a[1], Read("ids", index))], "max", "float32")
    kernel = Kernel(
        "largest_by_place",
        (
            TensorSpec("x", (BATCH, 11, 6)),
            TensorSpec("ids", (BATCH, 13, 6), "int64"),
            TensorSpec("u", (BATCH, 13, 6)),
            TensorSpec("t", (BATCH, 11, 6)),
            TensorSpec("y", (BATCH, 11, 6)),
        ),
        (
            Compute("t", a, update, over, "max"),
            Compute("y", a, Apply("max", (Read("x", every), Read("t", every)))),
        ),
        ("x", "ids", "u"),
        ("y",),
    )
    return Case(f"largest by place {tile}", kernel, Tiling(tuple(tile.items())), {"batch": 3})


def mask() -> Case:
    a = axes("a", (BATCH, SEQ, SEQ))
    causal = Apply("le", (IndexValue(var("a2")), IndexValue(var("a1"))))
    real = Read("keep", (var("a0"), var("a2")))
    kernel = Kernel(
        "mask",
        (TensorSpec("keep", (BATCH, SEQ), "bool"), TensorSpec("y", (BATCH, SEQ, SEQ))),
        (
            Compute(
                "y", a, Apply("where", (Apply("and", (causal, real)), Const(0.0), Const(-3.4e38)))
            ),
        ),
        ("keep",),
        ("y",),
    )
    return Case("mask", kernel, Tiling((("a0", 1),)), {"batch": 2, "seq": 9})


def running_sum() -> Case:
    a, r = axes("a", (BATCH, SEQ)), Axis("r", SEQ)
    value = Apply(
        "where",
        (
            Apply("le", (IndexValue(var("r")), IndexValue(var("a1")))),
            Read("x", (var("a0"), var("r"))),
            Const(0, "int64"),
        ),
    )
    kernel = Kernel(
        "cumsum",
        (TensorSpec("x", (BATCH, SEQ), "int64"), TensorSpec("y", (BATCH, SEQ), "int64")),
        (Compute("y", a, value, (r,), "sum"),),
        ("x",),
        ("y",),
    )
    return Case("running sum", kernel, Tiling((("a0", 1),)), {"batch": 2, "seq": 9})


def integers() -> Case:
    a = axes("a", (7,))
    x = at("x", a)
    value = Apply(
        "cast_bool", (Apply("sub", (Apply("mul", (x, x)), Apply("div", (x, Const(2, "int64"))))),)
    )
    kernel = Kernel(
        "integers",
        (TensorSpec("x", (7,), "int64"), TensorSpec("y", (7,), "bool")),
        (Compute("y", a, value),),
        ("x",),
        ("y",),
    )
    return Case("integers", kernel, Tiling())


SMALL = Micro(3, 1, 4)


def narrow_sum(dtype: str, tile: dict[str, int]) -> Case:
    """Rows of narrow elements, scaled in float32 and added to their sum, which is narrow too."""
    m, n = 13, 37
    a, r = axes("a", (m, n)), Axis("r", n)
    x = Apply("cast_float32", (at("x", a),))
    scaled = Apply(f"cast_{dtype}", (Apply("mul", (x, Const(0.75))),))
    total = Apply("cast_float32", (at("total", a[:1]),))
    own = Apply("cast_float32", (at("scaled", a),))
    computes = (
        Compute("scaled", a, scaled),
        Compute("total", a[:1], at("scaled", (a[0], r)), (r,), "sum"),
        Compute("y", a, Apply(f"cast_{dtype}", (Apply("add", (total, own)),))),
    )
    shapes = {"x": (m, n), "scaled": (m, n), "total": (m,), "y": (m, n)}
    tensors = tuple(TensorSpec(name, shape, dtype) for name, shape in shapes.items())
    kernel = Kernel("narrow_sum", tensors, computes, ("x",), ("y",))
    gap = {"float16": 2e-3, "bfloat16": 2e-2}[dtype]  # sums in another order round otherwise
    return Case(f"narrow sum {dtype} {tile}", kernel, Tiling(tuple(tile.items())), {}, gap)


CASES = [
    linear(5, 7, 9, "relu", {}),
    linear(17, 13, 31, "none", {"e0": 6}),
    linear(1, 5, 9, "two", {}, Micro(1, 2)),
    linear(29, 40, 70, "erf", {"e0": 16}),
    linear(29, 40, 70, "two", {"e0": 16, "e1": 32}),
    linear(BATCH, 40, 33, "relu", {"e0": 14}),
    linear(9, 300, 64, "relu", {}, Micro(14, 2), 128),
    linear(8, 6, 3, "relu", {}),
    conv(7, 7, 3, 9, 3, 1, 1, tile={"e1": 2}),
    conv(9, 6, 4, 40, 3, 2, 1),
    conv(7, 8, 5, 9, 1, 2, 0),
    conv(15, 13, 8, 33, 3, 1, 1, tile={"e1": 4}),
    conv(12, 12, 6, 16, 3, 1, 2, dilation=2),
    conv(11, 11, 8, 32, 3, 1, 1, groups=2),
    conv(9, 9, 12, 12, 3, 1, 1, groups=12),
    conv(9, 9, 20, 20, 5, 2, 2, groups=20),
    conv(8, 8, 16, 24, 1, 1, 0, n=3, tile={"e0": 1, "e1": 2}),
    conv(23, 23, 3, 16, 7, 2, 3, tile={"e1": 3}),
    conv(6, 6, 32, 32, 3, 1, 1, tile={"e1": 2, "e3": 32}),
    pool(8, 5, 2, 2, 0, "max", {"e1": 2}),
    pool(9, 20, 3, 2, 1, "max", {"e1": 2}),
    pool(7, 13, 7, 1, 0, "sum", {}),
    pool(8, 20, 3, 1, 1, "sum", {"e1": 3}),
    softmax(BATCH, SEQ, {"s0": 1, "s1": 8}),
    softmax(2, 33, {"s1": 5}),
    layer_norm(7, 19, {"s0": 3}),
    layer_norm(BATCH, 64, {"s0": 3}),
    attention(BATCH, SEQ, 2, 32, {"ob": 1, "oh": 1, "oi": 16}),
    attention(2, 37, 2, 24, {"ob": 1, "oh": 1, "oi": 16}),
    attention(1, 16, 3, 16, {"oi": 16}),
    attention(BATCH, SEQ, 2, 32, {"ob": 1, "oh": 1, "oi": 8}, causal=True),
    transpose((3, 5, 7), (0, 2, 1), {"a0": 1, "a1": 2}),
    transpose((2, 37, 50), (0, 2, 1), {"a0": 1, "a1": 20}),
    transpose((1, 3, 20, 20), (0, 2, 3, 1), {}),
    transpose((4, 6, 8, 32), (0, 2, 1, 3), {"a0": 1}),
    concat((3, 5), 3, (2, 4, 4, 1)),
    concat((2, 3, 1), 0, (1, 7)),
    gather(),
    embedding_gradient({}),
    embedding_gradient({"a0": 4}),
    embedding_gradient({"a0": 3, "a1": 10}),
    largest_by_place({"a0": 1}),
    largest_by_place({"a1": 4, "a2": 4}),
    mask(),
    running_sum(),
    integers(),
    narrow_sum("float16", {}),
    narrow_sum("float16", {"a0": 3}),
    narrow_sum("bfloat16", {"a0": 4}),
    linear(29, 40, 70, "root", {"e0": 16}),
]
