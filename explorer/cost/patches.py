"""Regions of partial updates: a kernel that changes a part of a tensor touches that part."""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.kernel import Kernel
from explorer.ir.patterns.patch import patch
from explorer.ir.patterns.regions import Interval, Regions


def narrow_to_patches(kernel: Kernel, regions: Regions) -> Regions:
    """Narrow the regions of a task to the parts that its updates change."""
    axes, tensors = list(regions.axes), dict(regions.tensors)
    for n, c in enumerate(kernel.computes):
        update = patch(kernel, c)
        if update is None:
            continue
        for part in update.parts:
            ranges = dict(axes[n])
            ranges[part.axis.name] = _at_most(ranges[part.axis.name], part.size)
            axes[n] = ranges
            dim = next(d for d, i in enumerate(c.target) if i.bare == part.axis.name)
            for name in (c.out, update.base):
                region = list(tensors[name])
                region[dim] = _at_most(region[dim], part.size)
                tensors[name] = tuple(region)
    return Regions(axes, tensors)


def _at_most(r: Interval, size: object) -> Interval:
    """Limit a range to `size` elements."""
    if isinstance(size, int) and (not isinstance(r.size, int) or r.size > size):
        return replace(r, size=size)
    return r
