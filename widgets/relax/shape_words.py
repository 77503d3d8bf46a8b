"""Bounds, annotations and loops in words: what the rooms about shapes have in common."""

from __future__ import annotations

from explorer.ir.kernel import Kernel
from explorer.ir.shapes.dims import Dim, SymbolBound
from explorer.ir.types import Annotation, Object, ShapeType, Tensor, TupleType
from widgets.model.outline import type_text


def bounds_text(bound: SymbolBound) -> str:
    """`1 to 64`, `0 to any`."""
    return f"{bound.low} to {'any' if bound.high is None else bound.high}"


def annotation_text(annotation: Annotation) -> str:
    """Any annotation in short: `f32[batch, 256]`, `Shape(n)`, `f32[2 dims]`, `Object`."""
    match annotation:
        case Tensor(None, _, rank) if rank is not None:
            return type_text(annotation).replace("[?]", f"[{rank} dims]")
        case ShapeType(None, rank):
            return f"Shape({'?' if rank is None else f'{rank} dims'})"
        case ShapeType(dims, _):
            return f"Shape({', '.join(map(str, dims or ()))})"
        case TupleType(items):
            return f"({', '.join(map(annotation_text, items))})"
        case Object():
            return "Object"
    return type_text(annotation) or "Callable"


def extents(kernel: Kernel) -> dict[str, Dim]:
    """Every axis of a kernel with its extent, each name once."""
    found: dict[str, Dim] = {}
    for compute in kernel.computes:
        for axis in (*compute.axes, *compute.reduce):
            found.setdefault(axis.name, axis.extent)
    return found


def loops_text(kernel: Kernel) -> str:
    """The loops of a kernel: `for n < batch, o < 10, k < 576`; those that run once are left out."""
    text = ", ".join(f"{n} < {e}" for n, e in extents(kernel).items() if e != 1)
    return f"for {text}" if text else "once"
