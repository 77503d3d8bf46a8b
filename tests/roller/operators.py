"""Operators of Roller's evaluation as kernels, at any size."""

from __future__ import annotations

from explorer.ir.affine import var
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, apply, at, axes
from tests.codegen.cases import conv as conv_case
from tests.codegen.cases import specs


def matmul(m: int, n: int, k: int) -> Kernel:
    i, j, r = Axis("m", m), Axis("n", n), Axis("k", k)
    c = Compute("y", (i, j), Apply("mul", (at("a", (i, r)), at("b", (r, j)))), (r,), "sum")
    return Kernel("matmul", specs(a=(m, k), b=(k, n), y=(m, n)), (c,), ("a", "b"), ("y",))


def conv(n: int, h: int, c: int, f: int, size: int, stride: int = 1) -> Kernel:
    return conv_case(h, h, c, f, size, stride, size // 2, n=n).kernel


def depthwise(n: int, h: int, c: int, size: int, stride: int = 1) -> Kernel:
    return conv_case(h, h, c, c, size, stride, size // 2, groups=c, n=n).kernel


def pooling(n: int, h: int, c: int, size: int, stride: int) -> Kernel:
    out = (h - size) // stride + 1
    over, window = axes("o", (n, out, out, c)), axes("r", (size, size))
    y, x = [var(f"o{d}") * stride + var(f"r{d - 1}") for d in (1, 2)]
    load = Read("x", (var("o0"), y, x, var("o3")))
    tensors = specs(x=(n, h, h, c), y=(n, out, out, c))
    return Kernel("pool", tensors, (Compute("y", over, load, window, "max"),), ("x",), ("y",))


def reduction(rows: int, depth: int) -> Kernel:
    s, r = Axis("s", rows), Axis("r", depth)
    c = Compute("y", (s,), at("x", (s, r)), (r,), "sum")
    return Kernel("reduce", specs(x=(rows, depth), y=(rows,)), (c,), ("x",), ("y",))


def relu(*shape: int) -> Kernel:
    e = axes("e", shape)
    c = Compute("y", e, apply("max", at("x", e), 0.0))
    return Kernel("relu", specs(x=shape, y=shape), (c,), ("x",), ("y",))


def transposed(rows: int, columns: int) -> Kernel:
    i, j = Axis("i", rows), Axis("j", columns)
    c = Compute("y", (j, i), at("x", (i, j)))
    return Kernel("transpose", specs(x=(rows, columns), y=(columns, rows)), (c,), ("x",), ("y",))


def lookup(rows: int, width: int, table: int) -> Kernel:
    a = axes("a", (rows, width))
    chosen = Read("ids", (var("a0"),))
    c = Compute("y", a, Read("t", (chosen, var("a1"))))
    tensors = specs(ids=(rows,), t=(table, width), y=(rows, width))
    return Kernel("lookup", tensors, (c,), ("ids", "t"), ("y",))


def scalar() -> Kernel:
    c = Compute("y", (), Apply("add", (Read("a", ()), Read("b", ()))))
    return Kernel("scalar", specs(a=(), b=(), y=()), (c,), ("a", "b"), ("y",))


KERNELS = (
    matmul(512, 1024, 256), matmul(127, 383, 61), matmul(1, 1000, 2048), matmul(65536, 2, 1024),
    conv(1, 56, 64, 64, 3), conv(8, 7, 512, 512, 3), conv(1, 28, 96, 42, 1),
    conv(1, 224, 3, 64, 7, 2), depthwise(1, 56, 32, 3), depthwise(4, 83, 84, 5, 2),
    pooling(8, 83, 168, 3, 2), reduction(512, 1024), reduction(13, 1), relu(17, 11, 3),
    relu(128, 56, 56, 16), relu(1), transposed(61, 67), lookup(5, 24, 11), scalar(),
)  # fmt: skip
