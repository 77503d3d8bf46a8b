"""`functools.cached_property` without a lock, as in Python 3.12 and later.

The one of Python 3.11 computes under a lock for all objects of a class: threads wait for each
other, and a process that is forked meanwhile waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """Property that is computed when it is first read.

    If two threads compute it at once, both get the first result.
    """

    def __init__(self, func: Callable[[Any], T]) -> None:
        """Wrap the function that computes the property."""
        self.func = func
        self.name = func.__name__
        self.__doc__ = func.__doc__
        self.__module__ = func.__module__

    @overload
    def __get__(self, owner: None, kind: type | None = None) -> Self: ...
    @overload
    def __get__(self, owner: object, kind: type | None = None) -> T: ...
    def __get__(self, owner: object | None, kind: type | None = None) -> Self | T:
        """Return the stored value, computing it first if needed."""
        if owner is None:
            return self
        value: T = vars(owner).setdefault(self.name, self.func(owner))
        return value
