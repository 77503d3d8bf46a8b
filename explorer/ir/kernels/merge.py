"""Vertical fusion: several kernels as one, computes in sequence, intermediates internal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.ir.affine import var
from explorer.ir.kernel import Axis, Compute, Kernel, TensorSpec, rename_tensors, substitute


def concatenate(producer: Kernel, consumer: Kernel, tensor: str) -> Kernel:
    """Return the kernel that does the work of `producer` and then of `consumer`.

    The consumer reads the producer's only output as `tensor`. Inputs are the producer's, then the
    consumer's without `tensor`. Clashing names are changed.
    """
    taken = {t.name for t in consumer.tensors}
    names = {t.name: _fresh(t.name, taken) for t in producer.tensors if t.name != producer.output}
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


def _fresh(name: str, taken: set[str]) -> str:
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
                names[a.name] = _fresh(a.name, used)
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
                tensor = _fresh(spec.name, taken)
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
