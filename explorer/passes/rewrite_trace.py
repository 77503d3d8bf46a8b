"""Matches of rewrite rules, recorded for a listener.

A pass reports where its rule matched and what replaced it. Nothing records while a model is
compiled.
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
    """A rule, the bindings where it matched, and the bindings that replaced them.

    A match shows the bindings as they were then: a rule may match the result of an earlier match.
    `title` is the name shown to readers; "" stands for the rule's own name.
    """

    rule: Callable[..., Any]
    before: tuple[Binding, ...]
    after: tuple[Binding, ...]
    title: str = ""


_listening: ContextVar[list[Match] | None] = ContextVar("matches", default=None)


@contextmanager
def recording() -> Iterator[list[Match]]:
    """Record the matches of all rules inside the context in a list."""
    matches: list[Match] = []
    token = _listening.set(matches)
    try:
        yield matches
    finally:
        _listening.reset(token)


def is_recorded() -> bool:
    """Return True if matches are recorded, so that data only for the record is worth computing."""
    return _listening.get() is not None


def record_match(
    rule: Callable[..., Any],
    before: tuple[Binding, ...],
    after: tuple[Binding, ...],
    title: str = "",
) -> None:
    """Record a match if a listener is active."""
    matches = _listening.get()
    if matches is not None:
        matches.append(Match(rule, before, after, title))
