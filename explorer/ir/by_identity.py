"""Memoisation by identity for functions of frozen values.

Comparing or hashing deep values costs as much as computing the function. The same object has the
same result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

MOST = 16384  # results cached per function; then the cache is cleared


def by_identity(function: Callable[[T], R], most: int = MOST) -> Callable[[T], R]:
    """Memoise a function of one frozen value by the value's identity.

    Each result is stored with its argument, so that no other value can have its `id`. Threads are
    safe: at worst a result is computed twice.
    """
    cache: dict[int, tuple[T, R]] = {}

    @wraps(function)
    def answer(value: T) -> R:
        entry = cache.get(id(value))
        if entry is not None:
            return entry[1]
        result = function(value)
        if len(cache) >= most:
            cache.clear()
        cache[id(value)] = (value, result)
        return result

    return answer


def by_identity_at(most: int) -> Callable[[Callable[[T, K], R]], Callable[[T, K], R]]:
    """Return a decorator that memoises a function of a frozen value and a small key.

    At most `most` results are stored.
    """

    def decorate(function: Callable[[T, K], R]) -> Callable[[T, K], R]:
        cache: dict[tuple[int, K], tuple[T, R]] = {}

        @wraps(function)
        def answer(value: T, key: K) -> R:
            entry = cache.get((id(value), key))
            if entry is not None:
                return entry[1]
            result = function(value, key)
            if len(cache) >= most:
                cache.clear()
            cache[id(value), key] = (value, result)
            return result

        return answer

    return decorate
