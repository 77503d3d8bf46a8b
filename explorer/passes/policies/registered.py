"""What a name of one's own stands for when options are made: a function from then on, so that what
was chosen by it is known by what the function does, and not by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

Given = TypeVar("Given")
Function = Callable[..., Any]
_known: dict[str, dict[str, Function]] = {}


def keep(system: str, name: str, policy: Function) -> None:
    """From now on the name stands for this function; a later one takes its place."""
    _known.setdefault(system, {})[name] = policy


def forget(system: str, name: str) -> None:
    """The name stands for nothing any more; KeyError where it did not."""
    del _known.get(system, {})[name]


def of(system: str) -> Mapping[str, Function]:
    """The policies of one's own of a system, by name."""
    return dict(_known.get(system, {}))


def every() -> tuple[Function, ...]:
    """Those of all systems."""
    return tuple(function for names in _known.values() for function in names.values())


def found(system: str, given: Given) -> Given | Function:
    """The function that a name stands for; anything else as it is given."""
    return _known.get(system, {}).get(given, given) if isinstance(given, str) else given


def name_of(policy: object) -> str:
    """The name that a function stands under; empty where it has none."""
    every = (pair for names in _known.values() for pair in names.items())
    return next((name for name, function in every if function is policy), "")


@contextmanager
def restored() -> Iterator[None]:
    """What is registered inside stays, unless something is raised there."""
    before = {system: dict(names) for system, names in _known.items()}
    try:
        yield
    except BaseException:
        _known.clear()
        _known.update(before)
        raise
