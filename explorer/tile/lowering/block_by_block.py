"""Computes that iterate over the same blocks one after another: contractions and all that lies
between them, a block at a time, so that scratch holds one block and not all of them.

s[b, i, j] = sum q k; e[b, i, j] = exp(s[b, i, j]); o[b, i, d] = sum e v   (not b in the output)
->   for b: s[i, j] = sum q k; e[i, j] = exp(s[i, j]); o[b, i, d] = sum e v
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from explorer.ir.affine import Affine, var
from explorer.ir.kernel import Apply, Compute, Expr, Kernel, Read, reads, rewrite, substitute
from explorer.ir.patterns.contraction import contraction
from explorer.ir.patterns.regions import Interval, Regions
from explorer.ir.shapes.dims import Dim
from explorer.ir.tile_programs.statements import Span

BLOCK = "_block0"


@dataclass(frozen=True, slots=True)
class Blocks:
    """The kernel with the blocks' axis as the number `_block0` in the computes from `first` up to,
    not including, `last`; what only they use has one block.
    """

    kernel: Kernel
    regions: Regions
    first: int
    last: int
    span: Span


def block_by_block(kernel: Kernel, regions: Regions) -> Blocks | None:
    """The first run of computes that can be done a block at a time, with two contractions or more
    in it; None where there is none.
    """
    if sum(_is_sum_of_products(c) for c in kernel.computes) < 2:
        return None
    for first, c in enumerate(kernel.computes):
        for axis in c.axes:
            found = _walk(kernel, regions, first, axis.name)
            if found is not None:
                return found
    return None


def _is_sum_of_products(c: Compute) -> bool:
    """What a contraction is at least: asked of every kernel that is lowered, so it costs little."""
    match c.expr:
        case Apply("mul", (Read(), Read())):
            return c.combiner == "sum"
    return False


def _walk(kernel: Kernel, regions: Regions, first: int, axis: str) -> Blocks | None:
    names, dims = {first: axis}, dict[str, int]()
    extent = next(a.extent for a in kernel.computes[first].axes if a.name == axis)
    for n, c in enumerate(kernel.computes[first:], first):
        name = names.get(n) or _axis_of(c, dims)
        if name is None or not _fits(kernel, regions, n, name, extent):
            break
        names[n] = name
        dims[c.out] = next(d for d, i in enumerate(c.target) if i.bare == name)
    last = first + len(names) if max(names) == first + len(names) - 1 else first
    inside = [_at_block(kernel.computes[n], names[n], {}) for n in range(first, last)]
    if sum(contraction(c) is not None for c in inside) < 2:
        return None
    if any(_is_row(kernel.computes[n], names[n]) for n in range(first, last)):
        return None
    span = Span(BLOCK, Affine(), extent, extent)
    made, seen = _moved(kernel, regions, names, dims, first, last)
    return Blocks(made, seen, first, last, span)


def _is_row(c: Compute, name: str) -> bool:
    """Whether the axis is one of a contraction's rows or its columns, which a register tile takes
    together.
    """
    found = contraction(c)
    return found is not None and any(a.name == name for a in (*found.rows, found.column))


def _axis_of(c: Compute, dims: Mapping[str, int]) -> str | None:
    """The axis at which a compute reads the blocks that were made before it."""
    found = {r.index[dims[r.tensor]] for r in reads(c.expr) if r.tensor in dims}
    if len(found) != 1:
        return None
    (index,) = found
    name = index.bare if isinstance(index, Affine) else None
    return name if any(a.name == name for a in c.axes) else None


def _fits(kernel: Kernel, regions: Regions, n: int, name: str, extent: Dim) -> bool:
    """The axis is iterated over whole, is one dim of what is written, and nothing is padded or
    split.
    """
    c = kernel.computes[n]
    alone = sum(k.out == c.out for k in kernel.computes) == 1
    whole = regions.axes[n].get(name) == Interval(Affine(), extent)
    once = [i.bare == name for i in c.target].count(True) == 1
    other = any(name in i.variables for i in c.target if i.bare != name)
    padded = any(r.fill is not None for k in kernel.computes for r in reads(k.expr))
    return alone and whole and once and not other and not padded and c.out not in kernel.outputs


def _at_block(c: Compute, name: str, inner: Mapping[str, int]) -> Compute:
    """The compute of one block; tensors that have one block only have no dim for it."""
    values = {name: var(BLOCK)}

    def leaf(read: Read) -> Expr:
        if read.tensor not in inner:
            return read
        d = inner[read.tensor]
        return replace(read, index=(*read.index[:d], *read.index[d + 1 :]))

    store = tuple(i.substitute(values) for i in c.target)
    if c.out in inner:
        store = tuple(i for d, i in enumerate(store) if d != inner[c.out])
    axes = tuple(a for a in c.axes if a.name != name)
    return replace(c, axes=axes, expr=rewrite(substitute(c.expr, values), leaf), store=store)


def _moved(
    kernel: Kernel,
    regions: Regions,
    names: Mapping[int, str],
    dims: Mapping[str, int],
    first: int,
    last: int,
) -> tuple[Kernel, Regions]:
    outside = (c for n, c in enumerate(kernel.computes) if not first <= n < last)
    read = {r.tensor for c in outside for r in reads(c.expr)}
    inner = {t: d for t, d in dims.items() if t not in read}
    computes = tuple(
        _at_block(c, names[n], inner) if first <= n < last else c
        for n, c in enumerate(kernel.computes)
    )
    tensors = tuple(
        replace(t, shape=tuple(e for d, e in enumerate(t.shape) if d != inner[t.name]))
        if t.name in inner
        else t
        for t in kernel.tensors
    )
    axes = [
        {a: r for a, r in ranges.items() if a != names.get(n)}
        for n, ranges in enumerate(regions.axes)
    ]
    boxes = {
        t: tuple(r for d, r in enumerate(box) if d != inner[t]) if t in inner else box
        for t, box in regions.tensors.items()
    }
    return replace(kernel, computes=computes, tensors=tensors), Regions(axes, boxes)
