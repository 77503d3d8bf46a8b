"""Assignment of gradients to buckets, in the order in which the backward pass computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEAST_BYTES = 1 << 20  # the first bucket of PyTorch's DistributedDataParallel
MOST = 4  # each is an all-reduce; 8 cost processes on shared cores more than they hide: measured


@dataclass(frozen=True, slots=True)
class Gradient:
    """One gradient: its parameter, its bytes, and the number of the binding that computes it."""

    parameter: str
    bytes: int
    position: int


def buckets(gradients: Sequence[Gradient]) -> list[list[int]]:
    """Return the positions of the gradients of each bucket, earliest gradients (late layers) first.

    A bucket is full at `LEAST_BYTES`, or at its share of all bytes if there would be more than
    `MOST`; a small remainder joins the last one. Source: Li et al. 2020, PyTorch Distributed,
    section 3.2.3 (buckets in the order of backward).
    """
    full = max(LEAST_BYTES, -(-sum(g.bytes for g in gradients) // MOST))
    groups: list[list[int]] = [[]]
    for n in sorted(range(len(gradients)), key=lambda n: gradients[n].position):
        if _bytes(gradients, groups[-1]) >= full:
            groups.append([])
        groups[-1].append(n)
    if len(groups) > 1 and _bytes(gradients, groups[-1]) < full // 2:
        remainder = groups.pop()
        groups[-1] += remainder
    return groups


def _bytes(gradients: Sequence[Gradient], which: Sequence[int]) -> int:
    return sum(gradients[n].bytes for n in which)
