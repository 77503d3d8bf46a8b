"""Memory of gradient buckets: contiguous in one array, summed without copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from explorer.runtime.workers.arena import aligned_array

LINE = 64  # bytes: each gradient begins on a cache line


@dataclass(frozen=True, slots=True)
class BucketArrays:
    """Views into one flat array.

    Each bucket, the flags of its gradients, and the loss; for each parameter its gradient, and the
    flag for a gradient that is not finite.
    """

    flat: np.ndarray
    buckets: tuple[np.ndarray, ...]
    flags: tuple[np.ndarray, ...]  # one array for each bucket
    loss: np.ndarray
    gradients: dict[int, np.ndarray]
    flag_of: dict[int, np.ndarray]


def bucket_arrays(
    shapes: Sequence[tuple[int, ...]], groups: Sequence[Sequence[int]], dtype: np.dtype[np.generic]
) -> BucketArrays:
    """Allocate zeroed gradients of these shapes; each group is a bucket."""
    line = LINE // dtype.itemsize
    sizes = [prod(shape) for shape in shapes]

    def lines(count: int) -> int:
        return -(-count // line) * line

    most = [sum(lines(sizes[g]) for g in group) + lines(len(group) + 1) for group in groups]
    flat = aligned_array((sum(most),), dtype)
    flat.fill(0)
    buckets: list[np.ndarray] = []
    flags: list[np.ndarray] = []
    gradients: dict[int, np.ndarray] = {}
    flag_of: dict[int, np.ndarray] = {}
    for group, count in zip(groups, most, strict=True):
        at = sum(b.size for b in buckets)
        buckets.append(flat[at : at + count])
        for g in group:
            gradients[g] = flat[at : at + sizes[g]].reshape(shapes[g])
            at += lines(sizes[g])
        flags.append(flat[at : at + len(group)])
        flag_of |= {g: flat[at + n : at + n + 1].reshape(()) for n, g in enumerate(group)}
    behind = int(flags[0].size) + sum(lines(sizes[g]) for g in groups[0])
    loss = flat[behind : behind + 1].reshape(())
    return BucketArrays(flat, tuple(buckets), tuple(flags), loss, gradients, flag_of)
