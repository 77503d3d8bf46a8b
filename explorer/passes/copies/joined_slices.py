"""Slices of one tensor that are joined again, as one copy: of neighbours, or of slices that lie
evenly apart.

y = [x[0], x[1], x[2]]  ->  y[t, i] = x[t, i], which is a view
y = [x[:, 0], x[:, 1], x[:, 2]]  ->  y[t * n + i] = x[i, t], for x of n rows
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from explorer.ir.affine import Affine, var
from explorer.ir.calls import KernelCall, Var
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.program import Binding
from explorer.ir.shapes.dims import Dim, ShapeEnv, simplify
from explorer.passes.copies.copy_maps import Origin, copy_map
from explorer.passes.copies.index_maps import Index, Ranges
from explorer.passes.rewrite_trace import matched


@dataclass(frozen=True, slots=True)
class _Piece:
    """`y[store] = x[index]` over the axes; of the copies on the way, where they come from."""

    axes: tuple[Axis, ...]
    store: Index
    index: Index
    origin: frozenset[str] = frozenset()


def join_slices(body: Iterable[Binding], env: ShapeEnv) -> list[Binding]:
    """The bindings, with every join of slices of one tensor that is one piece as a copy of it."""
    steps = list(body)
    made = {b.vars[0].name: b for b in steps}
    return [_joined(b, made, env) for b in steps]


def _joined(binding: Binding, made: Mapping[str, Binding], env: ShapeEnv) -> Binding:
    call = binding.expr
    if not isinstance(call, KernelCall) or len(call.kernel.computes) < 2:
        return binding
    if any(a.name not in made or copy_map(made[a.name]) is None for a in call.args):
        return binding
    found = [_piece(c, call, made, env) for c in call.kernel.computes]
    pieces = [p for _, p in filter(None, found)]
    sources = {s for s, _ in filter(None, found)}
    if len(pieces) < len(found) or len(sources) > 1:
        return binding
    origin = binding.origin.union(*(p.origin for p in pieces))
    whole = _stepping(_neighbours(pieces))
    if len(whole) > 1:
        return binding
    (source,) = sources
    new = replace(binding, expr=_copy(call.kernel, source, whole[0], origin), origin=origin)
    slices = (made[name] for name in dict.fromkeys(a.name for a in call.args))
    matched(join_slices, (*slices, binding), (new,))
    return new


def _piece(
    c: Compute, call: KernelCall, made: Mapping[str, Binding], env: ShapeEnv
) -> tuple[Var, _Piece] | None:
    """What a compute copies, from the far end of a chain of copies; None where it does more."""
    kernel = call.kernel
    if len(kernel.outputs) > 1 or kernel.updates:
        return None
    if c.out != kernel.output or c.reduce or not isinstance(c.expr, Read):
        return None
    if c.expr.tensor not in kernel.inputs:  # it copies what a compute before it made
        return None
    index = tuple(i for i in c.expr.index if isinstance(i, Affine))
    if len(index) < len(c.expr.index) or c.expr.fill is not None:
        return None
    source = call.args[kernel.inputs.index(c.expr.tensor)]
    ranges = Ranges({a.name: a.extent for a in c.axes}, env)
    origins = frozenset[str]()
    while source.name in made and (found := copy_map(made[source.name])) is not None:
        origin = found[1].origin(index, None, ranges)
        if not isinstance(origin, Origin) or origin.fill is not None:
            return None
        origins |= made[source.name].origin
        source, index = found[0], origin.index
    return source, _Piece(c.axes, c.target, index, origins)


def _neighbours(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Pieces that go on where the one before ends, in both tensors, as one with it."""
    found = [pieces[0]]
    for piece in pieces[1:]:
        more = _both(found[-1], piece)
        if more is None:
            found.append(piece)
        else:
            found[-1] = more
    return found


def _both(first: _Piece, second: _Piece) -> _Piece | None:
    names = _renamed(second, first.axes)
    if names is None:
        return None
    gaps = _gaps((*first.store, *first.index), (*names.store, *names.index))
    for n, (a, b) in enumerate(zip(first.axes, second.axes, strict=True)):
        ends = [simplify(i.factor(a.name) * a.extent) for i in (*first.store, *first.index)]
        rest = (*first.axes[:n], *first.axes[n + 1 :])
        others = (*second.axes[:n], *second.axes[n + 1 :])
        if gaps == ends and [x.extent for x in rest] == [x.extent for x in others]:
            longer = Axis(a.name, simplify(a.extent + b.extent))
            return replace(first, axes=(*first.axes[:n], longer, *first.axes[n + 1 :]))
    return None


def _stepping(pieces: list[_Piece]) -> list[_Piece]:
    """Pieces of one form, each as far behind the one before, as one with a further axis."""
    first, *others = pieces
    moved = [_renamed(p, first.axes) for p in others]
    if not others or any(m is None or m.axes != first.axes for m in moved):
        return pieces
    every = [first, *filter(None, moved)]
    places = [(*p.store, *p.index) for p in every]
    steps = [_gaps(a, b) for a, b in pairwise(places)]
    if steps[0] is None or any(s != steps[0] for s in steps):
        return pieces
    taken = {a.name for a in first.axes}
    name = next(n for k in range(len(taken) + 1) if (n := f"t{k}") not in taken)
    at = [i + var(name) * step for i, step in zip(places[0], steps[0], strict=True)]
    count = len(first.store)
    axes = (Axis(name, len(every)), *first.axes)
    return [_Piece(axes, tuple(at[:count]), tuple(at[count:]))]


def _renamed(piece: _Piece, axes: Sequence[Axis]) -> _Piece | None:
    """The piece over axes of these names."""
    if len(piece.axes) != len(axes):
        return None
    values = {a.name: var(b.name) for a, b in zip(piece.axes, axes, strict=True)}
    named = tuple(Axis(b.name, a.extent) for a, b in zip(piece.axes, axes, strict=True))
    store = tuple(i.substitute(values) for i in piece.store)
    return _Piece(named, store, tuple(i.substitute(values) for i in piece.index))


def _gaps(first: Index, second: Index) -> list[Dim] | None:
    """By how much each entry is larger, where they differ by no axis."""
    if len(first) != len(second):
        return None
    found = [b - a for a, b in zip(first, second, strict=True)]
    return None if any(g.terms for g in found) else [g.const for g in found]


def _copy(old: Kernel, source: Var, piece: _Piece, origin: frozenset[str]) -> KernelCall:
    x = TensorSpec("x", source.tensor.dims, source.tensor.element)
    y = replace(old.spec(old.output), name="y")
    made = Compute("y", piece.axes, Read("x", piece.index), store=piece.store, origin=origin)
    return KernelCall(Kernel(old.name, (x, y), (made,), ("x",), ("y",)), (source,))
