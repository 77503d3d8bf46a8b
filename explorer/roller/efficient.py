"""The tile of a kernel that takes the least of all units, beside the one that ends first: which of
the two runs is the wall's choice (Rammer, section 4.2).
"""

from __future__ import annotations

from collections.abc import Iterable

from explorer.ir.decisions import Candidate, Tiling
from explorer.roller.policy import AS_GOOD


def efficient(candidates: Iterable[Candidate[Tiling]], chosen: Candidate[Tiling]) -> Tiling | None:
    """The legal tiling whose tasks take least time together; None where that is the chosen one, or
    as good as it.
    """
    legal = [c for c in candidates if not c.refused]
    best = min(legal, key=work_us, default=chosen)
    return best.value if work_us(best) * AS_GOOD < work_us(chosen) else None


def work_us(candidate: Candidate[Tiling]) -> float:
    """What the tasks of a tiling take, shared evenly by all units."""
    return candidate.cost_us - dict(candidate.terms).get("imbalance", 0.0)
