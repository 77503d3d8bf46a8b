"""Regions of tensors whose elements data selects, such as an embedding's table."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity
from explorer.ir.kernel import Expr, Kernel, Read, reads
from explorer.ir.patterns.regions import Interval, Region, Regions, box
from explorer.ir.shapes.dims import Dim, simplify


def gathered_regions(kernel: Kernel, kernel_regions: Regions) -> dict[str, Region]:
    """Return the regions of gathered tensors.

    Along a dim that data selects, a task reads at most as many positions as it has iterations of
    the axes that the data depend on. Tensors that are read in several ways are left out.
    """
    boxes: dict[str, set[Region]] = {}
    for number, r in _gather_reads(kernel):
        ranges = kernel_regions.axes[number]
        places = box(r.index, ranges, kernel.shape(r.tensor))
        region = tuple(
            place if isinstance(i, Affine) else Interval(Affine(), _iterations(i, ranges))
            for i, place in zip(r.index, places, strict=True)
        )
        boxes.setdefault(r.tensor, set()).add(region)
    return {name: next(iter(regions)) for name, regions in boxes.items() if len(regions) == 1}


@by_identity
def _gather_reads(kernel: Kernel) -> tuple[tuple[int, Read], ...]:
    """Return every read of tensors that data selects from, with the number of its compute."""
    every = [(n, r) for n, c in enumerate(kernel.computes) for r in reads(c.expr)]
    selected = {r.tensor for _, r in every if not all(isinstance(i, Affine) for i in r.index)}
    return tuple((n, r) for n, r in every if r.tensor in selected)


def _iterations(index: Expr, ranges: Mapping[str, Interval]) -> Dim:
    """Return the number of iterations of the axes that an index depends on."""
    every = {n for r in reads(index) for i in r.index if isinstance(i, Affine) for n, _ in i.terms}
    size: Dim = 1
    for name in sorted(every):
        size = size * ranges[name].size
    return simplify(size)
