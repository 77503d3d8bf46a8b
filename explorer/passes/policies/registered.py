"""User-defined policies, registered under names.

Options resolve a name to its function when they are made: cache keys then hold the function's
content and not its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

Value = TypeVar("Value")
Function = Callable[..., Any]
_registered: dict[str, dict[str, Function]] = {}


def register(system: str, name: str, policy: Function) -> None:
    """Register a policy under a name; a later one replaces it."""
    _registered.setdefault(system, {})[name] = policy


def forget(system: str, name: str) -> None:
    """Remove a name; KeyError if it is not registered."""
    del _registered.get(system, {})[name]


def by_system(system: str) -> Mapping[str, Function]:
    """Return the user-defined policies of a system, by name."""
    return dict(_registered.get(system, {}))


def all_policies() -> tuple[Function, ...]:
    """Return the user-defined policies of all systems."""
    return tuple(function for names in _registered.values() for function in names.values())


def resolve(system: str, policy: Value) -> Value | Function:
    """Return the policy registered under a name; return anything else unchanged."""
    return _registered.get(system, {}).get(policy, policy) if isinstance(policy, str) else policy


def name_of(policy: object) -> str:
    """Return the name that a function is registered under, "" if none."""
    every = (pair for names in _registered.values() for pair in names.items())
    return next((name for name, function in every if function is policy), "")


@contextmanager
def restored() -> Iterator[None]:
    """Undo registrations made inside the context if it raises."""
    before = {system: dict(names) for system, names in _registered.items()}
    try:
        yield
    except BaseException:
        _registered.clear()
        _registered.update(before)
        raise
