"""Blocking of computes over the same axis: contractions and what lies between, a block at a time.

Scratch then holds one block instead of all.

s[b, i, j] = sum q k; e[b, i, j] = exp(s[b, i, j]); o[b, i, d] = sum e v   (not b in the output)
->   for b: s[i, j] = sum q k; e[i, j] = exp(s[i, j]); o[b, i, d] = sum e v
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from explorer.ir.affine import Affine, var
from explorer.ir.by_identity import by_identity, by_identity_at
from explorer.ir.dims import Dim
from explorer.ir.kernel import Apply, Axis, Compute, Expr, Kernel, Read, reads, rewrite, substitute
from explorer.ir.kernels.contraction import contraction
from explorer.ir.kernels.regions import Interval, Regions
from explorer.ir.tile_program import Span

BLOCK = "_block0"
REMEMBERED_KERNELS = 256  # a bound on memory, chosen


@dataclass(frozen=True, slots=True)
class BlockedKernel:
    """A kernel with some computes in blocks.

    The blocks' axis is the number `_block0` in the computes from `first` up to, not including,
    `last`. Tensors that only they use have one block.
    """

    kernel: Kernel
    regions: Regions
    first: int
    last: int
    span: Span


def block_by_block(kernel: Kernel, regions: Regions) -> BlockedKernel | None:
    """Return the first run of computes with two contractions that can run in blocks, or None."""
    for run in _runs(kernel):
        length = run.full_length(regions)
        if run.is_worth(length):
            last = run.first + length
            blocked, inner = _in_blocks(kernel, (run, length))
            span = Span(BLOCK, Affine(), run.extent, run.extent)
            return BlockedKernel(
                blocked, _regions(regions, run, length, inner), run.first, last, span
            )
    return None


@dataclass(frozen=True, slots=True)
class _Run:
    """Computes from `first` on that iterate over the same blocks, for any tile.

    Each has the axis over blocks (`names`), its dim in the result (`dims`), whether it is a
    contraction of one block, and whether the axis is one of a contraction's rows or its columns,
    which a register tile takes together.
    """

    first: int
    extent: Dim
    names: tuple[str, ...]
    dims: tuple[tuple[str, int], ...]
    contractions: tuple[bool, ...]
    rows: tuple[bool, ...]

    def full_length(self, regions: Regions) -> int:
        """Return how many of them, from the first on, iterate over all blocks in one tile."""
        every = Interval(Affine(), self.extent)
        for n, name in enumerate(self.names):
            if regions.axes[self.first + n].get(name) != every:
                return n
        return len(self.names)

    def is_worth(self, length: int) -> bool:
        """Return True if blocking the first `length` pays, and none loses its register tile."""
        return sum(self.contractions[:length]) >= 2 and not any(self.rows[:length])


@by_identity
def _runs(kernel: Kernel) -> tuple[_Run, ...]:
    """Return every run with two contractions, cached as kernels have thousands of tilings."""
    if sum(_is_sum_of_products(c) for c in kernel.computes) < 2:
        return ()
    single_writer = _single_writer_tensors(kernel)
    runs = (
        _run(kernel, first, a, single_writer)
        for first, c in enumerate(kernel.computes)
        for a in c.axes
    )
    return tuple(run for run in runs if run is not None)


def _is_sum_of_products(c: Compute) -> bool:
    """Return True for a possible contraction: a cheap test, made of every lowered kernel."""
    match c.expr:
        case Apply("mul", (Read(), Read())):
            return c.combiner == "sum"
    return False


def _run(kernel: Kernel, first: int, axis: Axis, single_writer: Collection[str]) -> _Run | None:
    """Return the run of computes that starts at an axis of a compute, or None."""
    names, dims = list[str](), dict[str, int]()
    for c in kernel.computes[first:]:
        name = _axis_of(c, dims) if names else axis.name
        if name is None or c.out not in single_writer or not _is_dim(c, name):
            break
        names.append(name)
        dims[c.out] = next(d for d, i in enumerate(c.target) if i.bare == name)
    inside = list(zip(kernel.computes[first:], names))
    if sum(_is_sum_of_products(c) for c, _ in inside) < 2:
        return None
    contractions = tuple([contraction(_at_block(c, name, {})) is not None for c, name in inside])
    if sum(contractions) < 2:
        return None
    rows = tuple([_is_row(c, name) for c, name in inside])
    return _Run(first, axis.extent, tuple(names), tuple(dims.items()), contractions, rows)


def _is_row(c: Compute, name: str) -> bool:
    form = contraction(c)
    return form is not None and any(a.name == name for a in (*form.rows, form.column))


def _axis_of(c: Compute, dims: Mapping[str, int]) -> str | None:
    """Return the axis at which a compute reads the blocks that were made before it."""
    indices = {r.index[dims[r.tensor]] for r in reads(c.expr) if r.tensor in dims}
    if len(indices) != 1:
        return None
    (index,) = indices
    name = index.bare if isinstance(index, Affine) else None
    return name if any(a.name == name for a in c.axes) else None


def _single_writer_tensors(kernel: Kernel) -> frozenset[str]:
    """Return the intermediates that one compute writes; none if something is padded."""
    if any(r.fill is not None for c in kernel.computes for r in reads(c.expr)):
        return frozenset()
    times = Counter(c.out for c in kernel.computes)
    return frozenset(t for t, n in times.items() if n == 1) - {*kernel.outputs}


def _is_dim(c: Compute, name: str) -> bool:
    """Return True if the axis is exactly one dim of the result, and no other index has it."""
    once = [i.bare == name for i in c.target].count(True) == 1
    return once and not any(name in i.variables for i in c.target if i.bare != name)


def _at_block(c: Compute, name: str, inner: Mapping[str, int]) -> Compute:
    """Return the compute of one block; tensors that have one block only have no dim for it."""
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


@by_identity_at(REMEMBERED_KERNELS)
def _in_blocks(kernel: Kernel, key: tuple[_Run, int]) -> tuple[Kernel, Mapping[str, int]]:
    """Return the kernel with the first `length` of a run in blocks, and the dims removed.

    The dims are by the name of the tensor that has one block.
    """
    run, length = key
    last = run.first + length
    outside = (c for n, c in enumerate(kernel.computes) if not run.first <= n < last)
    read = {r.tensor for c in outside for r in reads(c.expr)}
    inner = {t: d for t, d in run.dims[:length] if t not in read}
    computes = tuple(
        _at_block(c, run.names[n - run.first], inner) if run.first <= n < last else c
        for n, c in enumerate(kernel.computes)
    )
    tensors = tuple(
        replace(t, shape=tuple(e for d, e in enumerate(t.shape) if d != inner[t.name]))
        if t.name in inner
        else t
        for t in kernel.tensors
    )
    return replace(kernel, computes=computes, tensors=tensors), inner


def _regions(regions: Regions, run: _Run, length: int, inner: Mapping[str, int]) -> Regions:
    """Return the regions of a kernel in blocks: the blocks' axis and dims are removed."""
    names = dict(enumerate(run.names[:length], run.first))
    axes = [
        {a: r for a, r in ranges.items() if a != names.get(n)}
        for n, ranges in enumerate(regions.axes)
    ]
    boxes = {
        t: tuple(r for d, r in enumerate(box) if d != inner[t]) if t in inner else box
        for t, box in regions.tensors.items()
    }
    return Regions(axes, boxes)
