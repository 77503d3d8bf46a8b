"""Comparison of outputs: agreement within a tolerance, and largest errors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.errors import AnswerMismatch

TOLERANCE_SHARE = 1e-4  # of the largest answer; chosen
LEAST = 1e-30  # the largest answer counts as at least this


def agree(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Return True if two arrays agree to 1e-4 of the largest finite element.

    If all elements are smaller than 1e-30, that counts as the largest. NaN agrees with NaN.
    Integers and bools must be equal.
    """
    if ours.shape != theirs.shape or ours.dtype.kind != theirs.dtype.kind:
        return False
    if ours.dtype.kind != "f":
        return bool(np.array_equal(ours, theirs))
    return largest_error(ours, theirs) <= TOLERANCE_SHARE * max(largest(theirs), LEAST)


def largest(array: np.ndarray) -> float:
    """Return the largest finite magnitude, 0 if there is none."""
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    return float(np.abs(finite.astype(np.float64)).max(initial=0.0))


def largest_error(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the largest difference of two arrays of one shape.

    It is infinite where only one element is NaN or infinite.
    """
    return float(_errors(ours, theirs).max(initial=0.0))


def check_answers(
    ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray], name: str
) -> float:
    """Return the largest error over all outputs of another runtime.

    Raises:
        AnswerMismatch: an output differs; it names the element that differs most.
    """
    for output, value in ours.items():
        other = theirs.get(output)
        if other is None:
            raise AnswerMismatch(f"{name} returns no output {output!r}", where=output)
        if not agree(value, other):
            difference = _describe_difference(value, other)
            raise AnswerMismatch(
                f"ironworks and {name} differ at the output {output!r}: {difference}",
                where=output,
                expected=f"at most {TOLERANCE_SHARE:g} of the largest answer",
                try_="diverges() of the compilation, which names the first operator that differs",
            )
    return max((largest_error(value, theirs[output]) for output, value in ours.items()), default=0)


def _errors(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(a - b))
    return np.where(np.isnan(gap), np.inf, gap)


def _describe_difference(ours: np.ndarray, theirs: np.ndarray) -> str:
    if ours.shape != theirs.shape or ours.dtype.kind != theirs.dtype.kind:
        return f"{ours.dtype}{list(ours.shape)} and {theirs.dtype}{list(theirs.shape)}"
    errors = _errors(ours, theirs)
    worst = np.unravel_index(int(errors.argmax()), errors.shape)
    place = ", ".join(str(int(i)) for i in worst)
    return f"{ours[worst]:.6g} and {theirs[worst]:.6g} at [{place}]"
