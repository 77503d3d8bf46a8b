"""Names of the arrays of a tree: the path of keys to each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


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
