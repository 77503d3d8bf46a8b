"""Signature of an expression: a text without names, so equal texts are equal work."""

from __future__ import annotations

from functools import lru_cache

from explorer.ir.by_identity import by_identity
from explorer.ir.calls import (
    Branch,
    Expr,
    FunctionCall,
    Gradient,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    ShapeOf,
    Var,
    View,
)
from explorer.ir.decisions.tiling import Block, Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import renamed_block
from explorer.ir.kernels.kernel_text import kernel_text
from explorer.ir.program import Binding
from explorer.ir.types import Annotation


def signature(binding: Binding) -> str:
    """Return a binding's work and result types as text, without its operands."""
    return (
        f"{_expression_text(binding.expr)} : {'; '.join([type_text(v.type) for v in binding.vars])}"
    )


@lru_cache(maxsize=1 << 14)
def type_text(annotation: Annotation) -> str:
    """Return a type as text; cached, because symbols print slowly."""
    return str(annotation)


@by_identity
def _expression_text(expr: Expr) -> str:
    """Return an expression as text."""
    match expr:
        case OpCall(op, args, attrs):
            return f"operator {op}({_operands_text(args)}) {attrs!r}"
        case LibraryCall(library, function, args, attrs):
            return f"library {library}.{function}({_operands_text(args)}) {attrs!r}"
        case KernelCall(kernel, _, tiling, efficient, after, block):
            tiles = ", ".join(tiling_text(kernel, t) for t in (tiling, efficient))
            tiles += block_text(kernel, block)
            return f"kernel {kernel_text(kernel)} {tiles} {'after' if after else ''}"
        case View(_, offset):
            return f"view {offset}"
        case ShapeOf(dims, rank):
            return f"shape {dims} {rank}"
        case MatchCast():
            return "match_cast"
        case FunctionCall(_, args):
            return f"call {len(args)}"
        case Branch(_, _, _, args):
            return f"branch {len(args)}"
        case Gradient(_, args, wrt, seeds):
            return f"gradient {len(args)} {wrt} {len(seeds)}"
        case Loop(_, trip, cond, state, args, scans, rows, padded):
            parts = f"{trip is not None} {cond is not None} {len(state)} {len(args)}"
            return f"loop {parts} {scans} {tuple(map(str, rows))} {padded}"


def _operands_text(args: tuple[Var | None, ...]) -> str:
    """Return which optional operands are present."""
    return "".join("-" if a is None else "x" for a in args)


def tiling_text(kernel: Kernel, tiling: Tiling | None) -> str:
    """Return a tiling with axes by position instead of name."""
    if tiling is None:
        return ""
    places = _places(kernel)
    tile = " ".join(f"{places.get(a, a)}={n}" for a, n in tiling.tile)
    return f"{tile} {tiling.micro} {tiling.pack} {tiling.depth_block}"


def block_text(kernel: Kernel, block: Block | None) -> str:
    """Return a thread block likewise."""
    return "" if block is None else renamed_block(block, _places(kernel)).words


def _places(kernel: Kernel) -> dict[str, str]:
    """Return the position of each axis of a kernel."""
    places: dict[str, str] = {}
    for c in kernel.computes:
        for axis in (*c.axes, *c.reduce):
            places.setdefault(axis.name, f"i{len(places)}")
    return places
