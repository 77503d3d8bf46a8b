"""What an expression does, as a text without the names of values, axes and tensors: equal texts are
equal work.
"""

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
from explorer.ir.kernels.nameless import kernel_text
from explorer.ir.program import Binding
from explorer.ir.types import Annotation


def signature(binding: Binding) -> str:
    """What a binding does, and what its results are; not what it reads."""
    return f"{_told(binding.expr)} : {'; '.join([type_text(v.type) for v in binding.vars])}"


@lru_cache(maxsize=1 << 14)
def type_text(annotation: Annotation) -> str:
    """An annotation: many values have the same, and symbols are printed slowly."""
    return str(annotation)


@by_identity
def _told(expr: Expr) -> str:
    match expr:
        case OpCall(op, args, attrs):
            return f"operator {op}({_given(args)}) {attrs!r}"
        case LibraryCall(library, function, args, attrs):
            return f"library {library}.{function}({_given(args)}) {attrs!r}"
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
            known = f"{trip is not None} {cond is not None} {len(state)} {len(args)}"
            return f"loop {known} {scans} {tuple(map(str, rows))} {padded}"


def _given(args: tuple[Var | None, ...]) -> str:
    return "".join("-" if a is None else "x" for a in args)


def tiling_text(kernel: Kernel, tiling: Tiling | None) -> str:
    """A tiling by the positions of its axes: their names tell nothing."""
    if tiling is None:
        return ""
    places = _places(kernel)
    tile = " ".join(f"{places.get(a, a)}={n}" for a, n in tiling.tile)
    return f"{tile} {tiling.micro} {tiling.pack} {tiling.depth_block}"


def block_text(kernel: Kernel, block: Block | None) -> str:
    """A thread block, likewise."""
    return "" if block is None else renamed_block(block, _places(kernel)).words


def _places(kernel: Kernel) -> dict[str, str]:
    places: dict[str, str] = {}
    for c in kernel.computes:
        for axis in (*c.axes, *c.reduce):
            places.setdefault(axis.name, f"i{len(places)}")
    return places
