"""Text of bounds, annotations and loops, shared by the pictures about shapes."""

from __future__ import annotations

from explorer.ir.dims import Dim, SymbolBound
from explorer.ir.kernel import Kernel
from explorer.ir.types import Annotation, Object, ShapeType, Tensor, TupleType
from widgets.model.outline import type_text


def bounds_text(bound: SymbolBound) -> str:
    """Return the bounds as text: `1 to 64`, `0 to any`."""
    return f"{bound.low} to {'any' if bound.high is None else bound.high}"


def annotation_text(annotation: Annotation) -> str:
    """Return an annotation in short: `f32[batch, 256]`, `Shape(n)`, `f32[2 dims]`, `Object`."""
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
    """Return the extent of every axis of a kernel, by name."""
    by_axis: dict[str, Dim] = {}
    for compute in kernel.computes:
        for axis in (*compute.axes, *compute.reduce):
            by_axis.setdefault(axis.name, axis.extent)
    return by_axis


def loops_text(kernel: Kernel) -> str:
    """Return the loops of a kernel: `for n < batch, o < 10, k < 576`.

    Loops of one iteration are omitted.
    """
    text = ", ".join(f"{n} < {e}" for n, e in extents(kernel).items() if e != 1)
    return f"for {text}" if text else "once"
