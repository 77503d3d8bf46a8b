"""Pytrees: arguments and results as flat lists and their nesting in tuples, lists and dicts.

A complex array is two leaves, the real and the imaginary part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.frontends.python.tracing.operators import PART, is_complex, join_parts
from explorer.ir.types import Tensor

COMPLEX = "complex array"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A single value."""

    def __str__(self) -> str:
        """Return the text for error messages."""
        return "a value"


@dataclass(frozen=True, slots=True)
class Nest:
    """A tuple or a list of values; a dict if there are keys."""

    kind: str
    parts: tuple[Structure, ...]
    keys: tuple[Any, ...] = ()

    def __str__(self) -> str:
        """Return the text for error messages."""
        if self.kind == COMPLEX:
            return "a complex array"
        names = f" with the keys {', '.join(map(repr, self.keys))}" if self.keys else ""
        return f"a {self.kind} of {len(self.parts)}{names}"


Structure = Leaf | Nest


def flatten(value: Any) -> tuple[list[Any], Structure]:
    """Return the leaves in order and their structure; None has no leaves."""
    if value is None:
        return [], Nest("none", ())
    if isinstance(value, dict):
        return _nest("dict", list(value.values()), tuple(value))
    if isinstance(value, (tuple, list)):
        return _nest(type(value).__name__ if type(value) is list else "tuple", list(value))
    if is_complex(value):
        return _nest(COMPLEX, [value.real, value.imag], ("real", "imag"))
    if isinstance(value, Tensor) and value.dtype in PART:
        part = Tensor(value.shape, PART[value.dtype], value.ndim)
        return _nest(COMPLEX, [part, part], ("real", "imag"))
    return [value], Leaf()


def _nest(kind: str, items: list[Any], keys: tuple[Any, ...] = ()) -> tuple[list[Any], Structure]:
    parts = [flatten(item) for item in items]
    leaves = [leaf for values, _ in parts for leaf in values]
    return leaves, Nest(kind, tuple(s for _, s in parts), keys)


def holds_complex(structure: Structure) -> bool:
    """Return True if one of the values is a complex array."""
    if isinstance(structure, Leaf):
        return False
    return structure.kind == COMPLEX or any(map(holds_complex, structure.parts))


def rebuild(structure: Structure, leaves: Sequence[Any]) -> Any:
    """Nest the leaves as in `structure`."""
    return _rebuild(structure, iter(leaves))


def _rebuild(structure: Structure, leaves: Iterator[Any]) -> Any:
    if isinstance(structure, Leaf):
        return next(leaves)
    items = [_rebuild(part, leaves) for part in structure.parts]
    match structure.kind:
        case "none":
            return None
        case "complex array":
            return join_parts(*items)
        case "dict":
            return dict(zip(structure.keys, items, strict=True))
        case "list":
            return items
        case _:
            return tuple(items)
