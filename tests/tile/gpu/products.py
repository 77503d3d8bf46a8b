"""Products of 16-bit floats, as cases, with blocks whose warps multiply pieces of matrices."""

from __future__ import annotations

from dataclasses import replace

from explorer.devices.catalogue import device
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec, at, axes, rewrite
from explorer.roller.blocks.matrix_pieces import matrix_blocks
from explorer.roller.blocks.thread_block import all_axes
from explorer.roller.construct.expression import heaviest
from tests.codegen.cases import Case, conv, linear

A100 = device("a100")


def narrow(c: Case, dtype: str = "float16", names: tuple[str, ...] = ("x", "w")) -> Case:
    """The same with factors of 16 bits, multiplied and summed in float32."""

    def load(read: Read) -> Apply | Read:
        return Apply("cast_float32", (read,)) if read.tensor in names else read

    k = c.kernel
    tensors = tuple(replace(t, dtype=dtype) if t.name in names else t for t in k.tensors)
    computes = tuple(replace(x, expr=rewrite(x.expr, load)) for x in k.computes)
    return replace(
        c, name=f"{c.name} {dtype}", kernel=replace(k, tensors=tensors, computes=computes)
    )


def batched(rows: int, depth: int, columns: int, batch: int, dtype: str) -> Case:
    """Several products beside each other."""
    a, k = axes("a", (batch, rows, columns)), Axis("k", depth)
    read = (
        Read("x", (var("a0"), var("a1"), var("k"))),
        Read("w", (var("a0"), var("k"), var("a2"))),
    )
    product = Apply("mul", tuple(Apply("cast_float32", (r,)) for r in read))
    shapes = {"x": (batch, rows, depth), "w": (batch, depth, columns)}
    tensors = tuple(TensorSpec(n, shape, dtype) for n, shape in shapes.items())
    out = TensorSpec("y", (batch, rows, columns))
    compute = Compute("y", a, product, (k,), "sum")
    kernel = Kernel("products", (*tensors, out), (compute,), ("x", "w"), ("y",))
    return Case(f"batched {batch}x{rows}x{depth}x{columns} {dtype}", kernel, Tiling())


CASES = (
    narrow(linear(32, 32, 16, "relu", {})),
    narrow(linear(40, 16, 24, "erf", {}), "bfloat16"),
    narrow(linear(37, 50, 29, "two", {}), "bfloat16"),
    narrow(linear(5, 7, 9, "relu", {})),
    batched(18, 20, 12, 3, "float16"),
    narrow(conv(6, 18, 20, 12, 3, 1, 1)),
    narrow(conv(9, 9, 5, 9, 3, 2, 1), "bfloat16"),
    narrow(conv(8, 8, 16, 24, 1, 1, 0, n=2)),
)


def blocks(k: Kernel) -> list[Tiling]:
    """All that Roller weighs of pieces of matrices, for a kernel in normal form."""
    c = heaviest(k, {})
    return [b for b, _ in matrix_blocks(k, c, A100, (all_axes(k),))]


def behind(rows: int, depth: int, columns: int, dtype: str) -> Case:
    """A product whose left factor is made in the block, as behind a softmax."""
    i, j, k = Axis("i", rows), Axis("j", columns), Axis("k", depth)
    a = axes("a", (rows, depth))
    wide = Apply("cast_float32", (at("x", a),))
    made = Compute("p", a, Apply(f"cast_{dtype}", (Apply("tanh", (wide,)),)))
    sides = (at("p", (i, k)), at("w", (k, j)))
    product = Apply("mul", tuple(Apply("cast_float32", (s,)) for s in sides))
    shapes = {"x": (rows, depth), "w": (depth, columns), "p": (rows, depth)}
    tensors = tuple(TensorSpec(n, shape, dtype) for n, shape in shapes.items())
    kernel = Kernel(
        "behind",
        (*tensors, TensorSpec("y", (rows, columns))),
        (made, Compute("y", (i, j), product, (k,), "sum")),
        ("x", "w"),
        ("y",),
    )
    return Case(f"behind {rows}x{depth}x{columns} {dtype}", kernel, Tiling())
