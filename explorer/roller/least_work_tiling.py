"""The tile of a kernel that takes the least of all units, beside the one that ends first: which of
the two runs is the wall's choice (Rammer, section 4.2).
"""

from __future__ import annotations

from collections.abc import Iterable

from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.roller.tiles.order import AS_GOOD_RATIO


def efficient(
    candidates: Iterable[Candidate[Tiling]], chosen: Candidate[Tiling], device: Device
) -> Tiling | None:
    """The legal tiling whose tasks take least time together; None where that is the chosen one, as
    good as it, or saves all units together less than a barrier: no code is worth that.
    """
    legal = [c for c in candidates if not c.refused]
    best = min(legal, key=work_us, default=chosen)
    saved_us = device.units * (work_us(chosen) - work_us(best))
    worth = work_us(best) * AS_GOOD_RATIO < work_us(chosen) and saved_us > device.barrier_us
    return best.value if worth else None


def work_us(candidate: Candidate[Tiling]) -> float:
    """What the tasks of a tiling take, shared evenly by all units."""
    return candidate.cost_us - dict(candidate.terms).get("load imbalance", 0.0)
