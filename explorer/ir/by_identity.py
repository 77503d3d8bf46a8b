"""What is said of a value again and again is found once: frozen values are known by where they lie.

Equality of deep values costs as much as what is asked of them; the same object is the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

MOST = 16384  # answers kept of one function; then all are forgotten


def by_identity(function: Callable[[T], R], most: int = MOST) -> Callable[[T], R]:
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
        if len(kept) >= most:
            kept.clear()
        kept[id(value)] = (value, made)
        return made

    return answer


def by_identity_at(most: int) -> Callable[[Callable[[T, K], R]], Callable[[T, K], R]]:
    """The same of a function of a frozen value and a small key, `most` answers kept."""

    def decorate(function: Callable[[T, K], R]) -> Callable[[T, K], R]:
        kept: dict[tuple[int, K], tuple[T, R]] = {}

        @wraps(function)
        def answer(value: T, key: K) -> R:
            found = kept.get((id(value), key))
            if found is not None:
                return found[1]
            made = function(value, key)
            if len(kept) >= most:
                kept.clear()
            kept[id(value), key] = (value, made)
            return made

        return answer

    return decorate
