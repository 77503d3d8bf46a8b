"""functools.cached_property without a lock, as it is from Python 3.12 on.

That of Python 3.11 computes under one lock for all objects of a class: threads wait for each other,
and a process that is forked meanwhile would wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """A property that is computed when it is first read. Where two threads compute it at once, both
    get what the first one found.
    """

    def __init__(self, func: Callable[[Any], T]) -> None:
        self.func = func
        self.name = func.__name__
        self.__doc__ = func.__doc__
        self.__module__ = func.__module__

    @overload
    def __get__(self, owner: None, kind: type | None = None) -> Self: ...
    @overload
    def __get__(self, owner: object, kind: type | None = None) -> T: ...
    def __get__(self, owner: object | None, kind: type | None = None) -> Self | T:
        if owner is None:
            return self
        found: T = vars(owner).setdefault(self.name, self.func(owner))
        return found
