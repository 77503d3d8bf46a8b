"""Copies of slices: concatenated slices as one copy, and reshaped row slices in one flat dim.

Concatenated slices of one tensor are neighbours, or evenly spaced:

    y = [x[0], x[1], x[2]]  ->  y[t, i] = x[t, i], which is a view
    y = [x[:, 0], x[:, 1], x[:, 2]]  ->  y[t * n + i] = x[i, t], for x of n rows

Row slices that are then reshaped become independent of the row length:

    y[k, l] = x[k + 1, l]; z = y as [n, m], whose rows are no rows of y
    ->  x as [r * c]; y[p] = x[p + c]; z = y as [n, m]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from explorer.ir.affine import Affine, var
from explorer.ir.calls import KernelCall, Var, View
from explorer.ir.dims import Dim, Shape, ShapeEnv, product, simplify
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec, axes
from explorer.ir.program import Binding
from explorer.ir.types import Tensor
from explorer.transforms.copies.index_maps import (
    AffineMap,
    Index,
    Origin,
    Ranges,
    ViewMap,
    copy_map,
    reshape_groups,
    through_reshape,
)
from explorer.transforms.rewrite import record_match


@dataclass(frozen=True, slots=True)
class _Piece:
    """`y[store] = x[index]` over the axes, with the origins of the copies on the path."""

    axes: tuple[Axis, ...]
    store: Index
    index: Index
    origin: frozenset[str] = frozenset()


def join_slices(body: Iterable[Binding], env: ShapeEnv) -> list[Binding]:
    """Replace each concatenation of slices of one tensor by one copy, if they form one piece."""
    steps = list(body)
    definitions = {b.vars[0].name: b for b in steps}
    return [_join(b, definitions, env) for b in steps]


def _join(binding: Binding, definitions: Mapping[str, Binding], env: ShapeEnv) -> Binding:
    call = binding.expr
    if not isinstance(call, KernelCall) or len(call.kernel.computes) < 2:
        return binding
    if any(a.name not in definitions or copy_map(definitions[a.name]) is None for a in call.args):
        return binding
    sourced = [_match_piece(c, call, definitions, env) for c in call.kernel.computes]
    pieces = [p for _, p in filter(None, sourced)]
    sources = {s for s, _ in filter(None, sourced)}
    if len(pieces) < len(sourced) or len(sources) > 1:
        return binding
    origin = binding.origin.union(*(p.origin for p in pieces))
    merged = _merge_spaced(_merge_neighbours(pieces))
    if len(merged) > 1:
        return binding
    (source,) = sources
    new = replace(binding, expr=_build_copy(call.kernel, source, merged[0], origin), origin=origin)
    slices = (definitions[name] for name in dict.fromkeys(a.name for a in call.args))
    record_match(join_slices, (*slices, binding), (new,))
    return new


def _match_piece(
    c: Compute, call: KernelCall, definitions: Mapping[str, Binding], env: ShapeEnv
) -> tuple[Var, _Piece] | None:
    """Return the piece that a compute copies through a chain of copies, or None if it does more."""
    kernel = call.kernel
    if len(kernel.outputs) > 1 or kernel.updates:
        return None
    if c.out != kernel.output or c.reduce or not isinstance(c.expr, Read):
        return None
    if c.expr.tensor not in kernel.inputs:  # it copies an inner tensor
        return None
    index = tuple(i for i in c.expr.index if isinstance(i, Affine))
    if len(index) < len(c.expr.index) or c.expr.fill is not None:
        return None
    source = call.args[kernel.inputs.index(c.expr.tensor)]
    ranges = Ranges({a.name: a.extent for a in c.axes}, env)
    origins = frozenset[str]()
    while source.name in definitions and (copy := copy_map(definitions[source.name])) is not None:
        origin = copy[1].origin(index, None, ranges)
        if not isinstance(origin, Origin) or origin.fill is not None:
            return None
        origins |= definitions[source.name].origin
        source, index = copy[0], origin.index
    return source, _Piece(c.axes, c.target, index, origins)


def _merge_neighbours(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Merge pieces that are contiguous with the previous one in both tensors."""
    merged = [pieces[0]]
    for piece in pieces[1:]:
        more = _merge_pair(merged[-1], piece)
        if more is None:
            merged.append(piece)
        else:
            merged[-1] = more
    return merged


def _merge_pair(first: _Piece, second: _Piece) -> _Piece | None:
    names = _rename_axes(second, first.axes)
    if names is None:
        return None
    gaps = _index_gaps((*first.store, *first.index), (*names.store, *names.index))
    for n, (a, b) in enumerate(zip(first.axes, second.axes, strict=True)):
        ends = [simplify(i.factor(a.name) * a.extent) for i in (*first.store, *first.index)]
        first_others = (*first.axes[:n], *first.axes[n + 1 :])
        others = (*second.axes[:n], *second.axes[n + 1 :])
        if gaps == ends and [x.extent for x in first_others] == [x.extent for x in others]:
            longer = Axis(a.name, simplify(a.extent + b.extent))
            return replace(first, axes=(*first.axes[:n], longer, *first.axes[n + 1 :]))
    return None


def _merge_spaced(pieces: list[_Piece]) -> list[_Piece]:
    """Merge evenly spaced pieces of one form by a further axis."""
    first, *others = pieces
    moved = [_rename_axes(p, first.axes) for p in others]
    if not others or any(m is None or m.axes != first.axes for m in moved):
        return pieces
    every = [first, *filter(None, moved)]
    places = [(*p.store, *p.index) for p in every]
    steps = [_index_gaps(a, b) for a, b in pairwise(places)]
    if steps[0] is None or any(s != steps[0] for s in steps):
        return pieces
    taken = {a.name for a in first.axes}
    name = next(n for k in range(len(taken) + 1) if (n := f"t{k}") not in taken)
    at = [i + var(name) * step for i, step in zip(places[0], steps[0], strict=True)]
    count = len(first.store)
    axes = (Axis(name, len(every)), *first.axes)
    return [_Piece(axes, tuple(at[:count]), tuple(at[count:]))]


def _rename_axes(piece: _Piece, axes: Sequence[Axis]) -> _Piece | None:
    """Rename the axes of a piece."""
    if len(piece.axes) != len(axes):
        return None
    values = {a.name: var(b.name) for a, b in zip(piece.axes, axes, strict=True)}
    named = tuple(Axis(b.name, a.extent) for a, b in zip(piece.axes, axes, strict=True))
    store = tuple(i.substitute(values) for i in piece.store)
    return _Piece(named, store, tuple(i.substitute(values) for i in piece.index))


def _index_gaps(first: Index, second: Index) -> list[Dim] | None:
    """Return the constant differences of two indices' entries, or None if an axis differs."""
    if len(first) != len(second):
        return None
    differences = [b - a for a, b in zip(first, second, strict=True)]
    return None if any(g.terms for g in differences) else [g.const for g in differences]


def _build_copy(old: Kernel, source: Var, piece: _Piece, origin: frozenset[str]) -> KernelCall:
    x = TensorSpec("x", source.tensor.dims, source.tensor.element)
    y = replace(old.spec(old.output), name="y")
    copying = Compute("y", piece.axes, Read("x", piece.index), store=piece.store, origin=origin)
    return KernelCall(Kernel(old.name, (x, y), (copying,), ("x",), ("y",)), (source,))


def flatten_row_slices(
    body: Iterable[Binding], outputs: Collection[str], env: ShapeEnv
) -> list[Binding]:
    """Cut each row slice that only a view with other rows reads from flat memory instead."""
    steps = list(body)
    uses = Counter(v.name for b in steps for v in b.reads)
    place = {b.vars[0].name: n for n, b in enumerate(steps)}
    replacements: dict[int, tuple[Binding, ...]] = {}
    for n, b in enumerate(steps):
        copy = copy_map(b)
        source, view = copy if copy is not None else (None, None)
        if source is None or not isinstance(view, ViewMap) or view.offset != 0:
            continue
        m = place.get(source.name)
        if (
            m is None
            or uses[source.name] != 1
            or source.name in outputs
            or _is_affine_reshape(view, env)
        ):
            continue
        pair = _flatten_slice(steps[m], view)
        if pair is not None:
            run, cut = pair
            replacements[m] = _without_views(run, steps, place), cut
            replacements[n] = (replace(b, expr=View(pair[-1].var)),)
            record_match(flatten_row_slices, (steps[m], b), (*replacements[m], *replacements[n]))
    return [x for n, b in enumerate(steps) for x in replacements.get(n, (b,))]


def _without_views(view: Binding, steps: Sequence[Binding], place: Mapping[str, int]) -> Binding:
    """Replace the source of a view by what that is a plain view of."""
    source, origin = view.reads[0], view.origin
    while source.name in place:
        before = steps[place[source.name]]
        match before.expr:
            case View(arg, 0):
                source, origin = arg, origin | before.origin
            case _:
                break
    return replace(view, expr=View(source), origin=origin)


def _is_affine_reshape(view: ViewMap, env: ShapeEnv) -> bool:
    """Return True if the view's rows have affine indices in its source."""
    over = axes("a", view.result)
    ranges = Ranges({a.name: a.extent for a in over}, env)
    index = tuple(var(a.name) for a in over)
    return through_reshape(index, view.result, view.source, ranges) is not None


def _flatten_slice(binding: Binding, view: ViewMap) -> tuple[Binding, Binding] | None:
    """Return a row slice as a flat view and its slice, with one dim for each group of dims."""
    mapped = copy_map(binding)
    source, copy = mapped if mapped is not None else (None, None)
    if source is None or not isinstance(copy, AffineMap) or copy.fill is not None:
        return None
    starts = _slice_starts(copy)
    if starts is None or not isinstance(source.type, Tensor):
        return None
    groups = [of for of, _ in reshape_groups(copy.result, view.result)]
    if [d for of in groups for d in of] != list(range(len(copy.result))):
        return None
    if not all(_takes_full_rows(copy, starts, of) for of in groups):
        return None
    long = tuple(product(copy.source[of.start : of.stop]) for of in groups)
    part = tuple(product(copy.result[of.start : of.stop]) for of in groups)
    offsets = [_flat_offset(copy.source, starts, of) for of in groups]
    name = binding.var.name
    run = Var(f"{name}.run", replace(source.type, shape=long))
    cut = Var(f"{name}.cut", replace(source.type, shape=part))
    return (
        Binding((run,), View(source), binding.origin),
        Binding((cut,), _build_slice(binding, run, part, offsets), binding.origin),
    )


def _slice_starts(copy: AffineMap) -> list[Affine] | None:
    """Return the start of a slice in each dim of the source, or None if the copy is no slice."""
    if len(copy.source) != len(copy.result):
        return None
    names = [p.bare for p in copy.pattern]
    if None in names or len(set(names)) != len(copy.axes):
        return None
    starts = [i - p for i, p in zip(copy.index, copy.pattern, strict=True)]
    return None if any(s.terms for s in starts) else starts


def _takes_full_rows(copy: AffineMap, starts: Sequence[Affine], of: range) -> bool:
    """Return True if the slice takes full rows: only the first dim of the group is cut."""
    return all(copy.source[d] == copy.result[d] and starts[d] == Affine() for d in of[1:])


def _flat_offset(source: Shape, starts: Sequence[Affine], of: range) -> Affine:
    return starts[of.start] * product(source[of.start + 1 : of.stop])


def _build_slice(binding: Binding, run: Var, part: Shape, offsets: Sequence[Affine]) -> KernelCall:
    """Build the slice as a kernel of its own."""
    call = binding.kernel_call
    old = call.kernel
    dtype, over = old.dtype(old.output), axes("i", part)
    index = tuple(var(a.name) + o for a, o in zip(over, offsets, strict=True))
    tensors = (TensorSpec("x", run.tensor.dims, dtype), TensorSpec("y", part, dtype))
    slicing = Compute("y", over, Read("x", index), origin=old.origin)
    return KernelCall(Kernel(old.name, tensors, (slicing,), ("x",), ("y",)), (run,))
