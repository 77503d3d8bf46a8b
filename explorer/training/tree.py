"""Functions over nested parameters: dicts, lists and tuples of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.errors import BadOption
from explorer.frontends.tracing.structure import flatten, rebuild


def leaves(tree: Any) -> list[Any]:
    """The arrays, in order."""
    return flatten(tree)[0]


def each(function: Callable[..., Any], tree: Any, *more: Any) -> Any:
    """A function of each array, and of those in the same place of further trees."""
    first, nesting = flatten(tree)
    others = [_same(flatten(other), nesting) for other in more]
    return rebuild(nesting, [function(*row) for row in zip(first, *others, strict=True)])


def several(function: Callable[..., Any], count: int, tree: Any, *more: Any) -> tuple[Any, ...]:
    """The same of a function that gives so many arrays: a tree of each."""
    first, nesting = flatten(tree)
    others = [_same(flatten(other), nesting) for other in more]
    found = [function(*row) for row in zip(first, *others, strict=True)]
    return tuple(rebuild(nesting, [row[n] for row in found]) for n in range(count))


def _same(found: tuple[list[Any], Any], nesting: Any) -> list[Any]:
    if found[1] != nesting:
        raise BadOption(f"parameters are {nesting}, and what belongs to them is {found[1]}")
    return found[0]
