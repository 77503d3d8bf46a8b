"""Two kernels as one: the computes one after the other, the intermediate inside."""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.kernel import Axis, Compute, Kernel, rename_tensors, substitute, var


def concatenate(producer: Kernel, consumer: Kernel, tensor: str) -> Kernel:
    """The kernel that does what `producer` does and then `consumer`, which reads its output as
    `tensor`.

    Inputs: the producer's, then the consumer's without `tensor`. Names are made apart.
    """
    taken = {t.name for t in consumer.tensors}
    names = {t.name: _fresh(t.name, taken) for t in producer.tensors if t.name != producer.output}
    first = rename_tensors(producer, names | {producer.output: tensor})
    axes = {a.name for c in consumer.computes for a in (*c.axes, *c.reduce)}
    first = rename_axes(first, axes)
    made = {t.name for t in first.tensors}
    return Kernel(
        consumer.name,
        (*first.tensors, *(t for t in consumer.tensors if t.name not in made)),
        (*first.computes, *consumer.computes),
        (*first.inputs, *(n for n in consumer.inputs if n != tensor)),
        consumer.output,
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
    """The kernel with axis names that are not among `taken`."""
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
    """After: no value is passed twice. `args` names what each input is given."""
    first: dict[str, str] = {}
    names: dict[str, str] = {}
    for tensor, arg in zip(kernel.inputs, args, strict=True):
        names[tensor] = first.setdefault(arg, tensor)
    if len(first) == len(args):
        return kernel, args
    renamed = rename_tensors(kernel, names)
    kept = tuple(dict.fromkeys(renamed.inputs))
    tensors = tuple({t.name: t for t in renamed.tensors}.values())
    return replace(renamed, inputs=kept, tensors=tensors), tuple(first)
