"""What a kernel touches of a tensor of which it changes a part: the part."""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.kernel import Kernel
from explorer.ir.patterns.patch import patch
from explorer.ir.patterns.regions import Interval, Regions


def narrowed(kernel: Kernel, known: Regions) -> Regions:
    """The regions of a task, where each part that is changed lies in its tile."""
    axes, tensors = list(known.axes), dict(known.tensors)
    for n, c in enumerate(kernel.computes):
        found = patch(kernel, c)
        if found is None:
            continue
        for part in found.parts:
            ranges = dict(axes[n])
            ranges[part.axis.name] = _at_most(ranges[part.axis.name], part.size)
            axes[n] = ranges
            dim = next(d for d, i in enumerate(c.target) if i.bare == part.axis.name)
            for name in (c.out, found.kept):
                region = list(tensors[name])
                region[dim] = _at_most(region[dim], part.size)
                tensors[name] = tuple(region)
    return Regions(axes, tensors)


def _at_most(r: Interval, size: object) -> Interval:
    """The range, of so many elements where it has more."""
    if isinstance(size, int) and (not isinstance(r.size, int) or r.size > size):
        return replace(r, size=size)
    return r
