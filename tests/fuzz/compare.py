"""Is an answer within its bound, with NaN and infinity at the same places?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.fuzz.exact import Bound

Arrays = Mapping[str, np.ndarray]


def differs(found: np.ndarray, bound: Bound) -> str:
    """Where an answer is not within its bound, in words; empty where it is."""
    if found.shape != bound.value.shape:
        return f"shape {list(found.shape)} instead of {list(bound.value.shape)}"
    if found.dtype.kind not in "fV" and found.dtype.name != "bfloat16":
        wrong = int(np.count_nonzero((found != bound.value) & bound.judged))
        doubtful = int(np.count_nonzero(~bound.judged))  # in a few trials; others may be, too
        return f"{wrong} of {found.size} values differ" if wrong > doubtful else ""
    wide = found.astype(np.float64)
    right = bound.value
    nan = (np.isnan(wide) != np.isnan(right)) & bound.judged
    if nan.any():
        return f"NaN at {int(np.isnan(wide).sum())} places instead of {int(np.isnan(right).sum())}"
    odd = ~np.isfinite(right) & (wide != right) & ~np.isnan(right) & bound.judged
    odd |= np.isfinite(right) & ~np.isfinite(wide) & bound.judged
    if odd.any():
        return f"infinity at other places: {int(odd.sum())} of {found.size}"
    with np.errstate(all="ignore"):
        gap = np.where(np.isfinite(right) & bound.judged, np.abs(wide - right), 0)
    excess = gap - bound.reach
    if not (excess > 0).any():
        return ""
    worst = np.unravel_index(int(np.argmax(excess)), excess.shape)
    return (
        f"{int((excess > 0).sum())} of {found.size} values beyond rounding, "
        f"{wide[worst]:.9g} instead of {right[worst]:.9g} (allowed {bound.reach[worst]:.3g})"
    )


def compare(found: Arrays, right: Mapping[str, Bound]) -> str:
    """The first output that is wrong, and how."""
    for name, bound in right.items():
        if name not in found:
            return f"there is no output {name}"
        problem = differs(np.asarray(found[name]), bound)
        if problem:
            return f"{name}: {problem}"
    return ""
