"""Kernels as text without the names of axes and tensors: equal texts mean equal work."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity
from explorer.ir.kernel import Apply, Compute, Const, Expr, IndexValue, Kernel, Read
from explorer.ir.shapes.dims import Dim


@lru_cache(maxsize=1 << 14)
def _dim(dim: Dim) -> str:
    """Return a dim as text, cached: symbols are printed slowly."""
    return str(dim)


@by_identity
def kernel_text(kernel: Kernel) -> str:
    """Return a text of a kernel that does not depend on names."""
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
    """Return a loop nest without its names, and the tensors it reads in order of its numbers."""
    axes = {a.name: f"i{n}" for n, a in enumerate(c.axes)}
    axes |= {a.name: f"r{n}" for n, a in enumerate(c.reduce)}
    tensors: dict[str, int] = {}
    body = _scalar(c.expr, axes, tensors)
    over = " ".join(f"{axes[a.name]}<{_dim(a.extent)}" for a in (*c.axes, *c.reduce))
    target = ", ".join(_index(i, axes) for i in c.target)
    return f"[{target}] {c.combiner} over {over}: {body}", tuple(tensors)


def _scalar(expr: Expr, axes: Mapping[str, str], tensors: dict[str, int]) -> str:
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
