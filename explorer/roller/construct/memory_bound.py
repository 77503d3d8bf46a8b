"""Memory-bound operators, whose reuse is too small to matter (Roller artifact: plain policy)."""

from __future__ import annotations

from itertools import pairwise
from math import prod

from explorer.roller.construct.expression import Expression
from explorer.roller.construct.rtile import RTile

SHARES = tuple(n / 10 for n in range(1, 10))
LEAST_POINTS_A_BYTE, LEAST_MEAN_POINTS_A_BYTE = 2.0, 4.0  # of the whole operator; Roller artifact


def reuse_slopes(expression: Expression) -> tuple[float, ...]:
    """Return the growth of points a loaded byte from tiles of 10 % of every axis to 90 %."""
    points = [_points_per_byte(expression, share) for share in SHARES]
    return tuple((b - a) / (SHARES[1] - SHARES[0]) for a, b in pairwise(points))


def is_memory_bound(expression: Expression) -> bool:
    """Return True if a larger tile hardly computes more for each byte.

    That is a least slope of at most 2, or a mean of at most 4.
    """
    slopes = reuse_slopes(expression)
    return (
        min(slopes) <= LEAST_POINTS_A_BYTE or sum(slopes) / len(slopes) <= LEAST_MEAN_POINTS_A_BYTE
    )


def _points_per_byte(e: Expression, share: float) -> float:
    shape = tuple(max(1, int(share * n)) for n in e.extents)
    tile = RTile(e, shape)
    loaded = sum(a.item_bytes * prod(a.tile(tile.whole_shape)) for a in e.inputs)
    return prod(shape) / loaded if loaded else 0.0
