"""Several kernels as one, by vertical or by horizontal fusion.

Vertical: computes in sequence, intermediates internal (`concatenate`, `merge`). Horizontal: two
kernels that map one grid become one with the results of both (`join_kernels`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.ir.affine import var
from explorer.ir.kernel import (
    Axis,
    Compute,
    Expr,
    Kernel,
    Read,
    TensorSpec,
    expr_size,
    reads,
    rename_tensors,
    result_dtype,
    rewrite,
    substitute,
)
from explorer.ir.kernels.normal import LARGEST, is_cheap


def concatenate(producer: Kernel, consumer: Kernel, tensor: str) -> Kernel:
    """Return the kernel that does the work of `producer` and then of `consumer`.

    The consumer reads the producer's only output as `tensor`. Inputs are the producer's, then the
    consumer's without `tensor`. Clashing names are changed.
    """
    taken = {t.name for t in consumer.tensors}
    names = {
        t.name: fresh_name(t.name, taken) for t in producer.tensors if t.name != producer.output
    }
    first = rename_tensors(producer, names | {producer.output: tensor})
    axes = {a.name for c in consumer.computes for a in (*c.axes, *c.reduce)}
    first = rename_axes(first, axes)
    internal = {t.name for t in first.tensors}
    return Kernel(
        consumer.name,
        (*first.tensors, *(t for t in consumer.tensors if t.name not in internal)),
        (*first.computes, *consumer.computes),
        (*first.inputs, *(n for n in consumer.inputs if n != tensor)),
        consumer.outputs,
        first.constants | (consumer.constants - {tensor}),
        consumer.updates,
    )


def fresh_name(name: str, taken: set[str]) -> str:
    """Return a name that is not in `taken`, and add it to it."""
    new, n = name, 1
    while new in taken:
        n += 1
        new = f"{name}_{n}"
    taken.add(new)
    return new


def rename_axes(kernel: Kernel, taken: set[str]) -> Kernel:
    """Rename axes so that none of their names is among `taken`."""
    names: dict[str, str] = {}
    used = set(taken)
    for c in kernel.computes:
        for a in (*c.axes, *c.reduce):
            if a.name not in names:
                names[a.name] = fresh_name(a.name, used)
    if all(old == new for old, new in names.items()):
        return kernel
    return replace(kernel, computes=tuple(_renamed(c, names) for c in kernel.computes))


def _renamed(c: Compute, names: dict[str, str]) -> Compute:
    values = {old: var(new) for old, new in names.items() if old != new}
    return replace(
        c,
        axes=tuple(Axis(names[a.name], a.extent) for a in c.axes),
        reduce=tuple(Axis(names[a.name], a.extent) for a in c.reduce),
        store=tuple(i.substitute(values) for i in c.store),
        expr=substitute(c.expr, values),
    )


def share_inputs(kernel: Kernel, args: tuple[str, ...]) -> tuple[Kernel, tuple[str, ...]]:
    """Merge inputs that are passed the same value: after it no value is passed twice.

    `args` names the value of each input.
    """
    first: dict[str, str] = {}
    names: dict[str, str] = {}
    for tensor, arg in zip(kernel.inputs, args, strict=True):
        names[tensor] = first.setdefault(arg, tensor)
    if len(first) == len(args):
        return kernel, args
    renamed = rename_tensors(kernel, names)
    inputs = tuple(dict.fromkeys(renamed.inputs))
    tensors = tuple({t.name: t for t in renamed.tensors}.values())
    return replace(renamed, inputs=inputs, tensors=tensors), tuple(first)


@dataclass(frozen=True, slots=True)
class MergePart:
    """A kernel to be merged, with the names of its result and of its arguments."""

    kernel: Kernel
    result: str
    args: tuple[str, ...]


def merge(name: str, parts: Sequence[MergePart]) -> tuple[Kernel, tuple[str, ...]]:
    """Return one kernel that does the work of all parts in order, and the values that it takes.

    It has the last part's result. A value that one part computes and a later one reads is internal.
    Clashing names are changed.
    """
    tensors: dict[str, TensorSpec] = {}
    of_value: dict[str, str] = {}
    taken: set[str] = set()
    used: set[str] = set()
    computes: list[Compute] = []
    constants: set[str] = set()
    for part in parts:
        kernel = _with_fresh_axes(part.kernel, used)
        value_of = dict(zip(kernel.inputs, part.args, strict=True))
        names: dict[str, str] = {}
        for spec in kernel.tensors:
            value = part.result if spec.name in kernel.outputs else value_of.get(spec.name)
            tensor = None if value is None else of_value.get(value)
            if tensor is None:
                tensor = fresh_name(spec.name, taken)
                tensors[tensor] = replace(spec, name=tensor)
            if value is not None:
                of_value[value] = tensor
            names[spec.name] = tensor
        renamed = rename_tensors(kernel, names)
        computes += renamed.computes
        constants |= renamed.constants
    results = {p.result for p in parts}
    values = tuple(dict.fromkeys(a for p in parts for a in p.args if a not in results))
    inputs = tuple(of_value[a] for a in values)
    outputs = (of_value[parts[-1].result],)
    constant = frozenset(constants & set(inputs))
    return Kernel(name, tuple(tensors.values()), tuple(computes), inputs, outputs, constant), values


def _with_fresh_axes(kernel: Kernel, used: set[str]) -> Kernel:
    """Rename axes that are in `used`, and add the kernel's axes to it."""
    renamed = rename_axes(kernel, used)
    used |= {a.name for c in renamed.computes for a in (*c.axes, *c.reduce)}
    return renamed


def maps_one_grid(kernel: Kernel) -> bool:
    """Return True if each output is one compute without reduction, all over one grid.

    The kernel must compute nothing else.
    """
    if kernel.updates or {c.out for c in kernel.computes} != {*kernel.outputs}:
        return False
    first = kernel.computes[0]
    return (
        len(kernel.computes) == len(kernel.outputs)
        and bool(first.axes)
        and all(
            _maps(c) and (c.axes, c.target) == (first.axes, first.target) for c in kernel.computes
        )
    )


def _maps(c: Compute) -> bool:
    return (
        not c.reduce
        and all(i.bare is not None or not i.terms for i in c.target)
        and all(r.fill is None for r in reads(c.expr))
    )


def join_kernels(first: Kernel, second: Kernel) -> Kernel | None:
    """Return one kernel with the outputs of both, or None if they cannot be fused.

    Both kernels map one grid, and tensors of one name are one tensor. They cannot be fused if their
    grids differ, if they share no tensor that both read at the index written, or if the second
    reads elements that another tile writes.
    """
    names = {a.name for a in first.computes[0].axes}
    second = rename_axes(second, names)
    axes, target = first.computes[0].axes, first.computes[0].target
    own = second.computes[0].axes
    if [a.extent for a in own] != [a.extent for a in axes]:
        return None
    if {first.shape(o) for o in first.outputs} != {second.shape(o) for o in second.outputs}:
        return None
    values = {a.name: var(b.name) for a, b in zip(own, axes, strict=True)}
    moved = tuple(
        replace(
            c,
            axes=axes,
            store=tuple(i.substitute(values) for i in c.target),
            expr=substitute(c.expr, values),
        )
        for c in second.computes
    )
    produced = {*first.outputs}
    theirs = [r for c in moved for r in reads(c.expr)]
    pointwise = {
        r.tensor for c in first.computes for r in reads(c.expr) if r.index == target
    } | produced
    shared = any(r.tensor in pointwise and r.index == target for r in theirs)
    strays = any(r.tensor in produced and r.index != target for r in theirs)
    if not shared or strays or any(c.target != target for c in moved):
        return None
    tensors: dict[str, TensorSpec] = {t.name: t for t in (*first.tensors, *second.tensors)}
    return Kernel(
        first.name,
        tuple(tensors.values()),
        (*first.computes, *moved),
        tuple(dict.fromkeys((*first.inputs, *(i for i in second.inputs if i not in produced)))),
        (*first.outputs, *second.outputs),
        (first.constants | second.constants) - produced,
    )


def inline_output(kernel: Kernel, tensor: str) -> Kernel:
    """Inline one of a kernel's outputs into its readers, which then compute it themselves.

    Loops over vectors compute equal expressions once. The kernel is returned unchanged if the
    expression is large, or is not cheap and has several readers.
    """
    (producer,) = (c for c in kernel.computes if c.out == tensor)
    users = [c for c in kernel.computes if any(r.tensor == tensor for r in reads(c.expr))]
    if result_dtype(producer.expr, kernel) != kernel.dtype(tensor):
        return kernel
    if not users or (len(users) > 1 and not is_cheap(producer.expr)):
        return kernel

    def leaf(read: Read) -> Expr:
        return producer.expr if read.tensor == tensor else read

    new = {c.out: replace(c, expr=rewrite(c.expr, leaf)) for c in users}
    if not all(expr_size(c.expr).within(LARGEST) for c in new.values()):
        return kernel
    computes = tuple(
        replace(new[c.out], origin=c.origin | producer.origin) if c.out in new else c
        for c in kernel.computes
        if c is not producer
    )
    return replace(
        kernel,
        computes=computes,
        tensors=tuple(t for t in kernel.tensors if t.name != tensor),
        outputs=tuple(o for o in kernel.outputs if o != tensor),
    )
