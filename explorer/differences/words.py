"""Differences between two paired bindings, or loop nests, in words."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.differences.signature import block_text, tiling_text
from explorer.ir.calls import Attrs, Expr, FunctionCall, KernelCall, LibraryCall, OpCall
from explorer.ir.decisions.tiling import Block, Tiling
from explorer.ir.kernel import Compute
from explorer.ir.kernels.kernel_text import kernel_text, loop_text
from explorer.ir.program import Binding


def expr_words(old: Binding, new: Binding) -> Iterator[str]:
    """Yield the differences in a binding's work and results."""
    a, b = old.expr, new.expr
    if _called(a) != _called(b):
        yield f"{_called(a)} → {_called(b)}"
    match a, b:
        case OpCall(_, _, first), OpCall(_, _, second):
            yield from _attributes(first, second)
        case LibraryCall(_, _, _, first), LibraryCall(_, _, _, second):
            yield from _attributes(first, second)
        case KernelCall(), KernelCall():
            yield from _kernels(a, b)
    types = tuple(
        "; ".join(str(v.type) for v in binding.vars) or "nothing" for binding in (old, new)
    )
    if types[0] != types[1]:
        yield f"{types[0]} → {types[1]}"


def _called(expr: Expr) -> str:
    """Return an expression's kind and name."""
    match expr:
        case OpCall(op):
            return f"operator {op}"
        case KernelCall():
            return "kernel"
        case LibraryCall(library, function):
            return f"library {library}.{function}"
        case FunctionCall():
            return "call"
    return type(expr).__name__.lower()


def _attributes(first: Attrs, second: Attrs) -> Iterator[str]:
    """Yield the attributes that differ."""
    old, new = dict(first), dict(second)
    for name in dict.fromkeys((*old, *new)):
        if repr(old.get(name)) != repr(new.get(name)):
            yield f"{name} {old.get(name)} → {new.get(name)}"


def _kernels(a: KernelCall, b: KernelCall) -> Iterator[str]:
    """Yield the differences between two kernel calls."""
    old_kernel, new_kernel = a.kernel, b.kernel
    if kernel_text(old_kernel) != kernel_text(new_kernel):
        if len(old_kernel.computes) == len(new_kernel.computes):
            yield "its loops changed"
        else:
            yield f"{len(old_kernel.computes)} → {len(new_kernel.computes)} loops"
    for title, old, new in (
        ("tile", a.tiling, b.tiling),
        ("efficient tile", a.efficient, b.efficient),
    ):
        if tiling_text(old_kernel, old) != tiling_text(new_kernel, new):
            yield f"{title} {_tile(old)} → {_tile(new)}"
    if block_text(old_kernel, a.block) != block_text(new_kernel, b.block):
        yield f"thread block {_block(a.block)} → {_block(b.block)}"
    if (a.after is None) != (b.after is None):
        yield "waits for another value" if a.after is None else "waits no longer"


def _block(block: Block | None) -> str:
    """Format a thread block."""
    return "none" if block is None else block.words


def _tile(tiling: Tiling | None) -> str:
    """Format a tiling."""
    if tiling is None:
        return "none"
    tile = " ".join(f"{axis}={size}" for axis, size in tiling.tile) or "everything"
    packed = ", packed" if tiling.pack else ""
    return f"{tile} ({tiling.micro.rows}×{tiling.micro.columns} in registers{packed})"


def loop_words(old: Compute, new: Compute) -> Iterator[str]:
    """Yield the differences between two loop nests."""
    first, second = _extents(old), _extents(new)
    if first != second:
        yield f"over {first} → {second}"
    if old.combiner != new.combiner:
        yield f"{old.combiner or 'no sum'} → {new.combiner or 'no sum'}"
    reads = tuple(len(loop_text(c)[1]) for c in (old, new))
    if reads[0] != reads[1]:
        yield f"reads {reads[1]} tensors, not {reads[0]}"
    elif first == second and old.combiner == new.combiner:
        yield "computes something else, or of other elements"


def _extents(c: Compute) -> str:
    """Format the extents of a loop nest."""
    return " × ".join(str(a.extent) for a in (*c.axes, *c.reduce)) or "one element"
