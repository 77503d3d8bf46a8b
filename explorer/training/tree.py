"""Functions over nested parameters, which are dicts, lists and tuples of arrays, and names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from explorer.errors import BadOption
from explorer.frontends.python.tracing.structure import flatten, rebuild


def leaves(tree: Any) -> list[Any]:
    """Return the arrays, in order."""
    return flatten(tree)[0]


def each(function: Callable[..., Any], tree: Any, *more: Any) -> Any:
    """Apply a function to each array, and to those at the same place of further trees."""
    first, nesting = flatten(tree)
    others = [_check_nesting(flatten(other), nesting) for other in more]
    return rebuild(nesting, [function(*row) for row in zip(first, *others, strict=True)])


def map_to_trees(
    function: Callable[..., Any], count: int, tree: Any, *more: Any
) -> tuple[Any, ...]:
    """Apply a function that returns `count` arrays; return one tree for each."""
    first, nesting = flatten(tree)
    others = [_check_nesting(flatten(other), nesting) for other in more]
    rows = [function(*row) for row in zip(first, *others, strict=True)]
    return tuple(rebuild(nesting, [row[n] for row in rows]) for n in range(count))


def _check_nesting(flattened: tuple[list[Any], Any], nesting: Any) -> list[Any]:
    if flattened[1] != nesting:
        raise BadOption(
            f"parameters have the nesting {nesting}, and another tree has {flattened[1]}"
        )
    return flattened[0]


def names_of(tree: Any, prefix: str) -> list[str]:
    """Return one name for each array, in the order of `flatten`."""
    return list(_names(tree, prefix))


def _names(tree: Any, path: str) -> Iterator[str]:
    if tree is None:
        return
    if isinstance(tree, dict):
        for key, part in tree.items():
            yield from _names(part, f"{path}.{key}")
    elif isinstance(tree, (tuple, list)):
        for n, part in enumerate(tree):
            yield from _names(part, f"{path}.{n}")
    else:
        yield path
