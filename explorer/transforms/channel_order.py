"""Channel orders that match the loop of their only reader: a pixel shuffle reads dense memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, Var
from explorer.ir.kernel import (
    Apply,
    Compute,
    Expr,
    IndexValue,
    Kernel,
    Read,
    reads,
    rewrite,
)
from explorer.ir.program import Binding, Constant, Function, Program, fresh
from explorer.transforms.memory_order import is_free


def order_channels(program: Program) -> Program:
    """Permute a value's channels so that its reader iterates over them densely.

    After: no loop along a value's last dim is strided, if constants that may be permuted make that
    dim. `t[o] = sum over c: x[c] * w[o, c]; y[k, j] = t[4 * j + k]` becomes `t'[p] = sum over c:
    x[c] * w'[p, c]; y[k, j] = t'[16 * k + j]`, with `w'[16 * k + j] = w[4 * j + k]`.
    """
    constants = dict(program.constants)
    for function in program.functions:
        reordered = _order_function(function, constants)
        if reordered is not function:
            program = program.with_function(reordered)
    return replace(program, constants=constants)


def _order_function(function: Function, constants: dict[str, Constant]) -> Function:
    uses = Counter(v.name for b in function.body for v in b.reads)
    uses.update(v.name for v in function.outputs)
    body = list(function.body)
    places = {b.vars[0].name: n for n, b in enumerate(body)}
    taken = {v.name for b in body for v in b.vars} | {p.name for p in function.params}
    for n, reader in enumerate(function.body):
        if not isinstance(reader.expr, KernelCall):
            continue
        for value in reader.expr.args:
            place = places.get(value.name)
            if place is None or uses[value.name] != 1:
                continue
            pair = _permute_pair(body[place], body[n], value, constants, taken)
            if pair is not None:
                body[place], body[n] = pair
    same = all(a is b for a, b in zip(body, function.body, strict=True))
    return function if same else replace(function, body=tuple(body))


def _permute_pair(
    maker: Binding,
    reader: Binding,
    value: Var,
    constants: dict[str, Constant],
    taken: AbstractSet[str],
) -> tuple[Binding, Binding] | None:
    """Return a value's producer and reader with its last dim permuted, or None if it stays."""
    call, other = maker.expr, reader.expr
    if not isinstance(call, KernelCall) or not isinstance(other, KernelCall):
        return None
    tensor = next(t for t, a in zip(other.kernel.inputs, other.args, strict=True) if a == value)
    walk = _dense_iteration(other.kernel, tensor)
    moved = None if walk is None or not is_free(call.kernel) else _constants_along(call.kernel)
    if walk is None or moved is None:
        return None
    index, order = walk
    args = list(call.args)
    for name, dim in moved.items():
        at = call.kernel.inputs.index(name)
        old = args[at]
        array = constants[old.name].array
        if array.shape[dim] != len(order):
            return None
        new = fresh(f"{old.name}.shuffled", taken | constants.keys())
        constants[new] = Constant(np.ascontiguousarray(array.take(order, axis=dim)))
        args[at] = replace(old, name=new)

    def leaf(read: Read) -> Expr:
        return replace(read, index=(*read.index[:-1], index)) if read.tensor == tensor else read

    computes = tuple(replace(c, expr=rewrite(c.expr, leaf)) for c in other.kernel.computes)
    kernel = replace(other.kernel, computes=computes)
    return (
        replace(maker, expr=replace(call, args=tuple(args))),
        replace(reader, expr=replace(other, kernel=kernel)),
    )


def _dense_iteration(kernel: Kernel, tensor: str) -> tuple[Affine, np.ndarray] | None:
    """Return the dense index over a tensor's last dim for its only reader, and the permutation.

    The permutation maps each new position to the old element. Returns None if the reader is dense
    already or does not cover the dim.
    """
    users = [c for c in kernel.computes if any(r.tensor == tensor for r in reads(c.expr))]
    if len(users) != 1 or users[0].reduce or not kernel.shape(tensor):
        return None
    (c,) = users
    indices = {r.index[-1] for r in reads(c.expr) if r.tensor == tensor and r.fill is None}
    if len(indices) != 1 or any(r.fill is not None for r in reads(c.expr) if r.tensor == tensor):
        return None
    (index,) = indices
    extents = {a.name: a.extent for a in c.axes}
    if not isinstance(index, Affine) or index.const != 0 or len(index.terms) < 2:
        return None
    steps = sorted((f, n) for n, f in index.terms if isinstance(f, int) and f > 0)
    total = 1
    for step, name in steps:
        size = extents.get(name)
        if step != total or not isinstance(size, int):
            return None
        total *= size
    inner = c.axes[-1].name
    if len(steps) != len(index.terms) or total != kernel.shape(tensor)[-1]:
        return None
    if index.factor(inner) in (0, 1):
        return None
    names = [a.name for a in c.axes if index.factor(a.name) != 0]
    sizes = [int(str(extents[n])) for n in names]
    order = sum(
        grid * int(str(index.factor(n))) for grid, n in zip(np.indices(sizes), names, strict=True)
    )
    strides = [int(np.prod(sizes[k + 1 :], dtype=int)) for k in range(len(sizes))]
    new = Affine(tuple(sorted(zip(names, strides, strict=True))))
    return new, np.asarray(order).reshape(-1)


def _constants_along(kernel: Kernel) -> Mapping[str, int] | None:
    """Return the constants that index a kernel's results along their last dim, with their dims.

    Returns None if anything else varies along that dim.
    """
    along = {kernel.output: len(kernel.shape(kernel.output)) - 1}
    if along[kernel.output] < 0:
        return None
    moved: dict[str, int] = {}
    for c in reversed(kernel.computes):
        if c.out not in along:
            if any(r.tensor in along for r in reads(c.expr)):
                return None
            continue
        name = _axis_of_dim(c, along[c.out])
        if name is None or _is_used_as_number(c.expr, name):
            return None
        for read in reads(c.expr):
            dim = _dim_of_axis(read, name)
            if dim is None or (read.tensor in along and dim != along[read.tensor]):
                return None
            if dim < 0:
                continue
            if read.tensor in kernel.constants:
                if moved.setdefault(read.tensor, dim) != dim:
                    return None
            elif read.tensor in kernel.inputs:
                return None
            else:
                along[read.tensor] = dim
    readers = (r for c in kernel.computes for r in reads(c.expr))
    if any(
        r.tensor in moved and _is_indexed_otherwise(r, moved[r.tensor], kernel, along)
        for r in readers
    ):
        return None
    return moved


def _axis_of_dim(c: Compute, dim: int) -> str | None:
    """Return the axis by which a compute writes a dim and no other dim."""
    name = c.target[dim].bare
    others = (i for d, i in enumerate(c.target) if d != dim)
    return None if name is None or any(name in i.variables for i in others) else name


def _dim_of_axis(read: Read, name: str) -> int | None:
    """Return the dim of a read that is indexed by an axis alone.

    Returns -1 if the axis indexes no dim, None for other uses.
    """
    places = [
        d for d, i in enumerate(read.index) if not isinstance(i, Affine) or name in i.variables
    ]
    if not places:
        return -1
    index = read.index[places[0]]
    alone = len(places) == 1 and isinstance(index, Affine) and index.bare == name
    return places[0] if alone and read.fill is None else None


def _is_indexed_otherwise(read: Read, dim: int, kernel: Kernel, along: Mapping[str, int]) -> bool:
    """Return True if a constant is read at an index other than the one of the results."""
    users = [c for c in kernel.computes if any(r == read for r in reads(c.expr))]
    names = {_axis_of_dim(c, along[c.out]) if c.out in along else None for c in users}
    index = read.index[dim]
    return not (isinstance(index, Affine) and names == {index.bare})


def _is_used_as_number(expr: Expr, name: str) -> bool:
    """Return True if an axis is used as a number."""
    match expr:
        case Apply(_, args):
            return any(_is_used_as_number(a, name) for a in args)
        case IndexValue(index):
            return name in index.variables
    return False
