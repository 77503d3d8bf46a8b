"""Every single match of a rewrite rule, told to whoever listens: a pass tells where its rule
matched and what came of it. Nobody listens while a model is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from explorer.ir.program import Binding


@dataclass(frozen=True, slots=True)
class Match:
    """A rule, the bindings where it matched, and those that it put in their place. What a later
    match changes is as it is then: a step may match what an earlier one made. `title` is what
    readers call it, "" where that is the rule's name.
    """

    rule: Callable[..., Any]
    before: tuple[Binding, ...]
    after: tuple[Binding, ...]
    title: str = ""


_listening: ContextVar[list[Match] | None] = ContextVar("matches", default=None)


@contextmanager
def recording() -> Iterator[list[Match]]:
    """Inside, the matches of all rules are added to the list."""
    found: list[Match] = []
    token = _listening.set(found)
    try:
        yield found
    finally:
        _listening.reset(token)


def is_recorded() -> bool:
    """Whether anybody listens: what is made for them alone need not be made else."""
    return _listening.get() is not None


def matched(
    rule: Callable[..., Any],
    before: tuple[Binding, ...],
    after: tuple[Binding, ...],
    title: str = "",
) -> None:
    """Tell of a match."""
    found = _listening.get()
    if found is not None:
        found.append(Match(rule, before, after, title))
