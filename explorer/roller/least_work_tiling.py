"""The tiling of a kernel with the least total work, beside the one that finishes first.

Which of the two runs is the wall's choice (Rammer, section 4.2).
"""

from __future__ import annotations

from collections.abc import Iterable

from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.roller.tiles.order import AS_GOOD_RATIO


def least_work_tiling(
    candidates: Iterable[Candidate[Tiling]], chosen: Candidate[Tiling], device: Device
) -> Tiling | None:
    """Return the legal tiling whose tasks take the least total time, or None.

    It is None if that is the chosen one, is as good as it, or saves all units together less than a
    barrier: that is not worth the code.
    """
    legal = [c for c in candidates if not c.refused]
    best = min(legal, key=work_us, default=chosen)
    saved_us = device.units * (work_us(chosen) - work_us(best))
    worth = work_us(best) * AS_GOOD_RATIO < work_us(chosen) and saved_us > device.barrier_us
    return best.value if worth else None


def work_us(candidate: Candidate[Tiling]) -> float:
    """Return the time of all tasks of a tiling, shared evenly by all units."""
    return candidate.cost_us - dict(candidate.terms).get("load imbalance", 0.0)
