"""Passes by name: what a notebook, the command line and a picture call them, and the paper that
each comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from explorer.errors import BadOption

Registered = TypeVar("Registered", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class PassRecord:
    """A pass under its name: a function of a program, or a frozen dataclass whose instances are."""

    name: str
    run: Callable[..., Any]
    paper: str = ""

    @property
    def promise(self) -> str:
        """The first line of what the pass says of itself."""
        return (self.run.__doc__ or "").strip().partition("\n")[0]


_passes: dict[str, PassRecord] = {}


def compiler_pass(name: str, paper: str = "") -> Callable[[Registered], Registered]:
    """Register a pass; a later one of the same name takes its place, as when a notebook cell is run
    again.
    """
    if not name:
        raise BadOption("a pass needs a name", where="compiler_pass")

    def register(run: Registered) -> Registered:
        _passes[name] = PassRecord(name, run, paper)
        return run

    return register


def passes() -> Mapping[str, PassRecord]:
    """All passes that were registered so far, by name."""
    return MappingProxyType(_passes)


def find_pass(name: str) -> PassRecord:
    """The pass of that name; BadOption names the known ones."""
    if name not in _passes:
        raise BadOption(
            f"no pass is named {name!r}", where=name, expected=", ".join(sorted(_passes))
        )
    return _passes[name]
