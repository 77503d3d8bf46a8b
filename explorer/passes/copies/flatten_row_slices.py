"""Row slices that are then reshaped, as slices of one flat dim, independent of the row length.

y[k, l] = x[k + 1, l]; z = y as [n, m], whose rows are no rows of y
->  x as [r * c]; y[p] = x[p + c]; z = y as [n, m]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from explorer.ir.affine import Affine, var
from explorer.ir.calls import KernelCall, Var, View
from explorer.ir.kernel import Compute, Kernel, Read, TensorSpec, axes
from explorer.ir.program import Binding
from explorer.ir.shapes.dims import Shape, ShapeEnv, product
from explorer.ir.types import Tensor
from explorer.passes.copies.copy_maps import AffineMap, ViewMap, copy_map
from explorer.passes.copies.index_maps import Ranges, reshape_groups, through_reshape
from explorer.passes.rewrite_trace import record_match


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
