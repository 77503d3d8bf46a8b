"""Equal kernels under equal names, so that they are compiled once whatever the model calls its
tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from explorer.ir.affine import Affine, affine, var
from explorer.ir.decisions.tiling import Block, Tiling
from explorer.ir.kernel import Axis, Compute, Kernel, rename_tensors, substitute
from explorer.ir.kernels.rebase import rebased
from explorer.ir.shapes.algebra import is_symbolic
from explorer.ir.shapes.dims import ShapeEnv, symbol
from explorer.ir.symbols import symbols_in_order

Node = TypeVar("Node")


def text_of(kernel: Kernel) -> str:
    """All of a kernel as text, the same in every process: a set is printed in any order."""
    return f"{sorted(kernel.constants)} {replace(kernel, constants=frozenset())}"


def canonical(kernel: Kernel) -> tuple[Kernel, dict[str, str]]:
    """The kernel with inputs `x0, x1, ..` (constants `w0, ..`), output `y` (of
    several `y0, y1, ..`), others `t0, ..`, axes
    `i0, ..` and `r0, ..`, at the front of its tensors; and the new name of each axis.
    """
    kernel = rebased(kernel).kernel
    names: dict[str, str] = {}
    for n, tensor in enumerate(kernel.inputs):
        names[tensor] = f"{'w' if tensor in kernel.constants else 'x'}{n}"
    for n, tensor in enumerate(kernel.outputs):
        names[tensor] = "y" if len(kernel.outputs) == 1 else f"y{n}"
    for c in kernel.computes:
        names.setdefault(c.out, f"t{len(names)}")
    renamed = rename_tensors(kernel, names)
    used = {*renamed.inputs, *(c.out for c in renamed.computes)}
    tensors = tuple(sorted((t for t in renamed.tensors if t.name in used), key=lambda t: t.name))
    axes: dict[str, str] = {}
    computes = tuple(_axes(c, axes) for c in renamed.computes)
    return replace(renamed, name="kernel", tensors=tensors, computes=computes), axes


def canonical_symbols(kernel: Kernel, env: ShapeEnv) -> tuple[Kernel, ShapeEnv, dict[str, str]]:
    """The kernel with its symbols named `s0, ..` in the order in which they stand in it, what is
    known of these alone, and the new name of each.
    """
    names = {old: f"s{n}" for n, old in enumerate(symbols_in_order(kernel))}
    if not names:
        return kernel, env.only(frozenset()), names
    known = {b.name: b for b in env.only(frozenset(names)).symbols}
    bounds = tuple(replace(known[old], name=new) for old, new in names.items() if old in known)
    renamed = ShapeEnv(bounds)
    if all(old == new for old, new in names.items()):
        return kernel, renamed, names
    values = {symbol(old): symbol(new) for old, new in names.items()}
    return with_symbols(kernel, values), renamed, names


def with_symbols(node: Node, values: Mapping[Any, Any]) -> Node:
    """The same with other symbols in its dims, all exchanged at once."""
    made: Node = _exchanged(node, values)
    return made


def _exchanged(node: Any, values: Mapping[Any, Any]) -> Any:
    match node:
        case _ if is_symbolic(node):
            return node.xreplace(values)
        case Affine(terms, const):
            dims = {n: _exchanged(c, values) for n, c in terms}
            return affine(dims, _exchanged(const, values))
        case tuple():
            return tuple(_exchanged(n, values) for n in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    parts = {f.name: getattr(node, f.name) for f in fields(node) if f.init}
    return replace(node, **{name: _exchanged(part, values) for name, part in parts.items()})


def renamed_tiling(tiling: Tiling, names: Mapping[str, str]) -> Tiling:
    """A tiling with its axes renamed."""
    return replace(tiling, tile=tuple((names.get(a, a), n) for a, n in tiling.tile))


def renamed_block(block: Block, names: Mapping[str, str]) -> Block:
    """A thread block with its axes renamed; KeyError where one is not among the names."""
    return replace(
        block,
        tile=tuple((names[a], n) for a, n in block.tile),
        register=tuple((names[a], n) for a, n in block.register),
        shared=tuple((names[a], n) for a, n in block.shared),
        parts=tuple((names[a], n) for a, n in block.parts),
        matrix=tuple(names[a] for a in block.matrix),
    )


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
