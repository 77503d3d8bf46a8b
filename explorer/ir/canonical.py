"""Equal kernels under equal names, so that they are compiled once whatever the model calls its
tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from explorer.ir.decisions import Tiling
from explorer.ir.kernel import Axis, Compute, Kernel, rename_tensors, substitute, var


def canonical(kernel: Kernel) -> tuple[Kernel, dict[str, str]]:
    """The kernel with inputs `x0, x1, ..` (constants `w0, ..`), output `y`, others `t0, ..`, axes
    `i0, ..` and `r0, ..`; and the new name of each axis.
    """
    names: dict[str, str] = {}
    for n, tensor in enumerate(kernel.inputs):
        names[tensor] = f"{'w' if tensor in kernel.constants else 'x'}{n}"
    names[kernel.output] = "y"
    for c in kernel.computes:
        names.setdefault(c.out, f"t{len(names)}")
    renamed = rename_tensors(kernel, names)
    used = {*renamed.inputs, *(c.out for c in renamed.computes)}
    tensors = tuple(sorted((t for t in renamed.tensors if t.name in used), key=lambda t: t.name))
    axes: dict[str, str] = {}
    computes = tuple(_axes(c, axes) for c in renamed.computes)
    return replace(renamed, name="kernel", tensors=tensors, computes=computes), axes


def renamed_tiling(tiling: Tiling, names: Mapping[str, str]) -> Tiling:
    """A tiling with its axes renamed."""
    return replace(tiling, tile=tuple((names.get(a, a), n) for a, n in tiling.tile))


def _axes(c: Compute, names: dict[str, str]) -> Compute:
    for a in c.axes:
        names.setdefault(a.name, f"i{len(names)}")
    for a in c.reduce:
        names.setdefault(a.name, f"r{len(names)}")
    values = {a.name: var(names[a.name]) for a in (*c.axes, *c.reduce)}
    return replace(
        c,
        axes=tuple(Axis(names[a.name], a.extent) for a in c.axes),
        reduce=tuple(Axis(names[a.name], a.extent) for a in c.reduce),
        store=tuple(i.substitute(values) for i in c.store),
        expr=substitute(c.expr, values),
        origin=frozenset(),
    )
