"""What is said of a value again and again is found once: frozen values are known by where they lie.

Equality of deep values costs as much as what is asked of them; the same object is the same answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

MOST = 16384  # answers kept of one function; then all are forgotten


def by_identity(function: Callable[[T], R]) -> Callable[[T], R]:
    """The function of one frozen value, its answers kept with the values they are of, so that no
    other value can lie there. Safe with threads: at worst an answer is found twice.
    """
    kept: dict[int, tuple[T, R]] = {}

    @wraps(function)
    def answer(value: T) -> R:
        found = kept.get(id(value))
        if found is not None:
            return found[1]
        made = function(value)
        if len(kept) >= MOST:
            kept.clear()
        kept[id(value)] = (value, made)
        return made

    return answer
