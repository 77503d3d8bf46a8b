"""Slices of whole rows that are then reshaped, as slices of one long dim: the shape between does
not matter.

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
from explorer.passes.rewrite_trace import matched


def slices_of_runs(
    body: Iterable[Binding], outputs: Collection[str], env: ShapeEnv
) -> list[Binding]:
    """The bindings, with every slice of rows that only a view of other rows reads cut from a run of
    elements.
    """
    steps = list(body)
    uses = Counter(v.name for b in steps for v in b.reads)
    place = {b.vars[0].name: n for n, b in enumerate(steps)}
    made: dict[int, tuple[Binding, ...]] = {}
    for n, b in enumerate(steps):
        found = copy_map(b)
        source, view = found if found is not None else (None, None)
        if source is None or not isinstance(view, ViewMap) or view.offset != 0:
            continue
        m = place.get(source.name)
        if m is None or uses[source.name] != 1 or source.name in outputs or _goes(view, env):
            continue
        pair = _as_run(steps[m], view)
        if pair is not None:
            run, cut = pair
            made[m] = _without_views(run, steps, place), cut
            made[n] = (replace(b, expr=View(pair[-1].var)),)
            matched(slices_of_runs, (steps[m], b), (*made[m], *made[n]))
    return [x for n, b in enumerate(steps) for x in made.get(n, (b,))]


def _without_views(view: Binding, steps: Sequence[Binding], place: Mapping[str, int]) -> Binding:
    """The view, of what its source is a mere view of."""
    source, origin = view.reads[0], view.origin
    while source.name in place:
        before = steps[place[source.name]]
        match before.expr:
            case View(arg, 0):
                source, origin = arg, origin | before.origin
            case _:
                break
    return replace(view, expr=View(source), origin=origin)


def _goes(view: ViewMap, env: ShapeEnv) -> bool:
    """Whether the view's rows can be told in terms of its source's."""
    over = axes("a", view.result)
    ranges = Ranges({a.name: a.extent for a in over}, env)
    index = tuple(var(a.name) for a in over)
    return through_reshape(index, view.result, view.source, ranges) is not None


def _as_run(binding: Binding, view: ViewMap) -> tuple[Binding, Binding] | None:
    """A slice of rows as a view and a slice of what the view's groups of dims are as one each."""
    found = copy_map(binding)
    source, copy = found if found is not None else (None, None)
    if source is None or not isinstance(copy, AffineMap) or copy.fill is not None:
        return None
    starts = _starts(copy)
    if starts is None or not isinstance(source.type, Tensor):
        return None
    groups = [of for of, _ in reshape_groups(copy.result, view.result)]
    if [d for of in groups for d in of] != list(range(len(copy.result))):
        return None
    if not all(_is_run(copy, starts, of) for of in groups):
        return None
    long = tuple(product(copy.source[of.start : of.stop]) for of in groups)
    part = tuple(product(copy.result[of.start : of.stop]) for of in groups)
    offsets = [_offset(copy.source, starts, of) for of in groups]
    name = binding.var.name
    run = Var(f"{name}.run", replace(source.type, shape=long))
    cut = Var(f"{name}.cut", replace(source.type, shape=part))
    return (
        Binding((run,), View(source), binding.origin),
        Binding((cut,), _cut(binding, run, part, offsets), binding.origin),
    )


def _starts(copy: AffineMap) -> list[Affine] | None:
    """Where in each dim of the source a slice begins; None where the copy is no slice."""
    if len(copy.source) != len(copy.result):
        return None
    names = [p.bare for p in copy.pattern]
    if None in names or len(set(names)) != len(copy.axes):
        return None
    starts = [i - p for i, p in zip(copy.index, copy.pattern, strict=True)]
    return None if any(s.terms for s in starts) else starts


def _is_run(copy: AffineMap, starts: Sequence[Affine], of: range) -> bool:
    """Whether the slice takes whole rows: all dims of the group but the first are as they were."""
    return all(copy.source[d] == copy.result[d] and starts[d] == Affine() for d in of[1:])


def _offset(source: Shape, starts: Sequence[Affine], of: range) -> Affine:
    return starts[of.start] * product(source[of.start + 1 : of.stop])


def _cut(binding: Binding, run: Var, part: Shape, offsets: Sequence[Affine]) -> KernelCall:
    """The slice as a kernel of its own."""
    call = binding.kernel_call
    old = call.kernel
    dtype, over = old.dtype(old.output), axes("i", part)
    index = tuple(var(a.name) + o for a, o in zip(over, offsets, strict=True))
    tensors = (TensorSpec("x", run.tensor.dims, dtype), TensorSpec("y", part, dtype))
    made = Compute("y", over, Read("x", index), origin=old.origin)
    return KernelCall(Kernel(old.name, tensors, (made,), ("x",), ("y",)), (run,))
