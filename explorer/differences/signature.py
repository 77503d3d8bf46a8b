"""What an expression does, as a text without the names of values, axes and tensors: equal texts are
equal work.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from explorer.ir.affine import Affine
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
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Apply, Compute, Const, IndexValue, Kernel, Read
from explorer.ir.kernel import Expr as Scalar
from explorer.ir.program import Binding
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import Annotation


def signature(binding: Binding) -> str:
    """What a binding does, and what its results are; not what it reads."""
    return f"{_told(binding.expr)} : {'; '.join([type_text(v.type) for v in binding.vars])}"


@lru_cache(maxsize=1 << 14)
def type_text(annotation: Annotation) -> str:
    """An annotation: many values have the same, and symbols are printed slowly."""
    return str(annotation)


@lru_cache(maxsize=1 << 14)
def _dim(dim: Dim) -> str:
    return str(dim)


@by_identity
def _told(expr: Expr) -> str:
    match expr:
        case OpCall(op, args, attrs):
            return f"operator {op}({_given(args)}) {attrs!r}"
        case LibraryCall(library, function, args, attrs):
            return f"library {library}.{function}({_given(args)}) {attrs!r}"
        case KernelCall(kernel, _, tiling, efficient, after):
            tiles = ", ".join(tiling_text(kernel, t) for t in (tiling, efficient))
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
    places: dict[str, str] = {}
    for c in kernel.computes:
        for axis in (*c.axes, *c.reduce):
            places.setdefault(axis.name, f"i{len(places)}")
    tile = " ".join(f"{places.get(a, a)}={n}" for a, n in tiling.tile)
    return f"{tile} {tiling.micro} {tiling.pack} {tiling.depth_block}"


@by_identity
def kernel_text(kernel: Kernel) -> str:
    """All of a kernel but its names."""
    names = {t: f"x{n}" for n, t in enumerate(kernel.inputs)}
    names |= {t: f"y{n}" for n, t in enumerate(kernel.outputs)}
    for c in kernel.computes:
        names.setdefault(c.out, f"t{len(names)}")
    loops = [_linked(c, names) for c in kernel.computes]
    used = (
        f"{names[t.name]} {tuple(map(_dim, t.shape))} {t.dtype}"
        for t in kernel.tensors
        if t.name in names
    )
    updates = [(names[o], names[i]) for o, i in kernel.updates]
    fixed = sorted(names[t] for t in kernel.constants)
    parts = (str(len(kernel.inputs)), *loops, *sorted(used), str(updates), str(fixed))
    return "\n".join(parts)


def _linked(c: Compute, names: Mapping[str, str]) -> str:
    text, reads = loop_text(c)
    return f"{names[c.out]} = {text} of {', '.join(names.get(t, t) for t in reads)}"


@by_identity
def loop_text(c: Compute) -> tuple[str, tuple[str, ...]]:
    """A loop nest without its names, and the tensors that it reads, as it numbers them."""
    axes = {a.name: f"i{n}" for n, a in enumerate(c.axes)}
    axes |= {a.name: f"r{n}" for n, a in enumerate(c.reduce)}
    tensors: dict[str, int] = {}
    body = _scalar(c.expr, axes, tensors)
    over = " ".join(f"{axes[a.name]}<{_dim(a.extent)}" for a in (*c.axes, *c.reduce))
    target = ", ".join(_index(i, axes) for i in c.target)
    return f"[{target}] {c.combiner} over {over}: {body}", tuple(tensors)


def _scalar(expr: Scalar, axes: Mapping[str, str], tensors: dict[str, int]) -> str:
    match expr:
        case Const(value, dtype):
            return f"{value!r} {dtype}"
        case IndexValue(index):
            return _index(index, axes)
        case Read(tensor, index, fill):
            number = tensors.setdefault(tensor, len(tensors))
            at = ", ".join(
                _index(i, axes) if isinstance(i, Affine) else _scalar(i, axes, tensors)
                for i in index
            )
            return f"#{number}[{at}] else {fill!r}"
        case Apply(op, args):
            return f"{op}({', '.join(_scalar(a, axes, tensors) for a in args)})"


def _index(index: Affine, axes: Mapping[str, str]) -> str:
    terms = sorted([f"{_dim(c)}*{axes.get(n, n)}" for n, c in index.terms])
    return " + ".join((*terms, _dim(index.const)))
