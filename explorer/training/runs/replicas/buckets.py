"""Which gradients are summed together, and in which order: as the backward pass makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEAST_BYTES = 1 << 20  # PyTorch's DistributedDataParallel has as many in its first bucket
MOST = 4  # each is a round, of which 8 cost processes on shared cores more than they hide: measured


@dataclass(frozen=True, slots=True)
class Gradient:
    """One gradient: of which parameter, its bytes, and after how many bindings it is made."""

    parameter: str
    bytes: int
    made: int


def buckets(gradients: Sequence[Gradient]) -> list[list[int]]:
    """The positions of the gradients of each bucket, those that are made first in the first: those
    of late layers. A bucket is full at `LEAST_BYTES`, and at its share of all where there would be
    more than `MOST`; what is left over belongs to the last one.

    Source: Li et al. 2020, PyTorch Distributed, section 3.2.3 (buckets in the order of backward).
    """
    full = max(LEAST_BYTES, -(-sum(g.bytes for g in gradients) // MOST))
    found: list[list[int]] = [[]]
    for n in sorted(range(len(gradients)), key=lambda n: gradients[n].made):
        if _bytes(gradients, found[-1]) >= full:
            found.append([])
        found[-1].append(n)
    if len(found) > 1 and _bytes(gradients, found[-1]) < full // 2:
        rest = found.pop()
        found[-1] += rest
    return found


def _bytes(gradients: Sequence[Gradient], which: Sequence[int]) -> int:
    return sum(gradients[n].bytes for n in which)
