"""What tasks read of tensors that data selects elements of, as an embedding's rows of its table."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity
from explorer.ir.kernel import Expr, Kernel, Read, reads
from explorer.ir.patterns.regions import Interval, Region, Regions, box
from explorer.ir.shapes.dims import Dim, simplify


def gathered(kernel: Kernel, known: Regions) -> dict[str, Region]:
    """The boxes of such tensors: along a dim that data selects, a task reads no more places than it
    has iterations of the axes that the data depend on. None of a tensor that is read otherwise too.
    """
    found: dict[str, set[Region]] = {}
    for number, r in _selecting(kernel):
        ranges = known.axes[number]
        places = box(r.index, ranges, kernel.shape(r.tensor))
        region = tuple(
            place if isinstance(i, Affine) else Interval(Affine(), _iterations(i, ranges))
            for i, place in zip(r.index, places, strict=True)
        )
        found.setdefault(r.tensor, set()).add(region)
    return {name: next(iter(regions)) for name, regions in found.items() if len(regions) == 1}


@by_identity
def _selecting(kernel: Kernel) -> tuple[tuple[int, Read], ...]:
    """Every read of the tensors that data selects of, with the number of its compute."""
    every = [(n, r) for n, c in enumerate(kernel.computes) for r in reads(c.expr)]
    selected = {r.tensor for _, r in every if not all(isinstance(i, Affine) for i in r.index)}
    return tuple((n, r) for n, r in every if r.tensor in selected)


def _iterations(index: Expr, ranges: Mapping[str, Interval]) -> Dim:
    """Of all axes together that an index depends on."""
    every = {n for r in reads(index) for i in r.index if isinstance(i, Affine) for n, _ in i.terms}
    size: Dim = 1
    for name in sorted(every):
        size = size * ranges[name].size
    return simplify(size)
