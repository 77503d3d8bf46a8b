"""Element-wise computes over a tensor written in parts, split into computes of the parts."""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.affine import Affine
from explorer.ir.kernel import Compute, Expr, Kernel, Read, reads, result_dtype, rewrite, substitute


def map_parts(kernel: Kernel) -> Kernel:
    """Split an element-wise compute by the parts of the tensor that it reads.

    After: no element-wise compute is the only reader of a tensor that element-wise computes write
    in parts. `t[2*i] = a[i]; t[2*i+1] = b[i]; y[j] = max(t[j], 0)` becomes `y[2*i] = max(a[i], 0);
    y[2*i+1] = max(b[i], 0)`.
    """
    split = {c.out for c in kernel.computes if any(i.bare is None for i in c.target)}
    for tensor in sorted(split - {*kernel.outputs}):
        kernel = _map_tensor(kernel, tensor)
    return kernel


def _map_tensor(kernel: Kernel, tensor: str) -> Kernel:
    parts = [c for c in kernel.computes if c.out == tensor]
    users = [c for c in kernel.computes if any(r.tensor == tensor for r in reads(c.expr))]
    if len(users) != 1 or users[0].reduce or any(_is_no_map(kernel, p) for p in parts):
        return kernel
    (user,) = users
    mine = {r for r in reads(user.expr) if r.tensor == tensor}
    if len(mine) != 1:
        return kernel
    read = mine.pop()
    if not _reads_all(kernel, user, read):
        return kernel
    mapped = [_map_part(user, p, read) for p in parts]
    if any(m is None for m in mapped) or sum(c.out == user.out for c in kernel.computes) > 1:
        return kernel
    new = tuple(m for m in mapped if m is not None)
    others = tuple(c for c in kernel.computes if c.out != tensor)
    place = others.index(user)
    return replace(
        kernel,
        computes=(*others[:place], *new, *others[place + 1 :]),
        tensors=tuple(t for t in kernel.tensors if t.name != tensor),
    )


def _reads_all(kernel: Kernel, user: Compute, read: Read) -> bool:
    """Return True if the reader's axes cover all of the dims that they index."""
    extents = {a.name: a.extent for a in user.axes}
    return all(
        extents.get(i.bare, n) == n
        for i, n in zip(read.index, kernel.shape(read.tensor), strict=True)
        if isinstance(i, Affine) and i.bare is not None
    )


def _is_no_map(kernel: Kernel, c: Compute) -> bool:
    return bool(c.reduce) or result_dtype(c.expr, kernel) != kernel.dtype(c.out)


def _map_part(user: Compute, part: Compute, read: Read) -> Compute | None:
    """Return the reader at the elements that one part writes, or None if it is not element-wise."""
    if read.fill is not None:
        return None
    values: dict[str, Affine] = {}
    for stored, index in zip(part.target, read.index, strict=True):
        if not isinstance(index, Affine):
            return None
        if index == stored and not index.terms:
            continue
        if index.bare is None or index.bare in values:
            return None
        values[index.bare] = stored
    if set(values) != {a.name for a in user.axes}:
        return None

    def leaf(r: Read) -> Expr:
        return part.expr if r.tensor == part.out else r

    return replace(
        part,
        out=user.out,
        expr=rewrite(substitute(user.expr, values), leaf),
        store=tuple(i.substitute(values) for i in user.target),
        origin=part.origin | user.origin,
    )
