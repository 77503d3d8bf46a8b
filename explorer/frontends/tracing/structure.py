"""Arguments and results as flat lists: tuples, lists and dicts of values, nested as one likes.

A complex array is two values, the real and the imaginary part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.frontends.tracing.complex_array import PART, is_complex, join_parts
from explorer.ir.types import Tensor

COMPLEX = "complex array"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value."""

    def __str__(self) -> str:
        return "a value"


@dataclass(frozen=True, slots=True)
class Several:
    """A tuple or a list of values; a dict where there are keys."""

    kind: str
    parts: tuple[Structure, ...]
    keys: tuple[Any, ...] = ()

    def __str__(self) -> str:
        if self.kind == COMPLEX:
            return "a complex array"
        names = f" with the keys {', '.join(map(repr, self.keys))}" if self.keys else ""
        return f"a {self.kind} of {len(self.parts)}{names}"


Structure = Leaf | Several


def flatten(value: Any) -> tuple[list[Any], Structure]:
    """The values in order, and how they were nested; None is no value."""
    if value is None:
        return [], Several("none", ())
    if isinstance(value, dict):
        return _several("dict", list(value.values()), tuple(value))
    if isinstance(value, (tuple, list)):
        return _several(type(value).__name__ if type(value) is list else "tuple", list(value))
    if is_complex(value):
        return _several(COMPLEX, [value.real, value.imag], ("real", "imag"))
    if isinstance(value, Tensor) and value.dtype in PART:
        part = Tensor(value.shape, PART[value.dtype], value.ndim)
        return _several(COMPLEX, [part, part], ("real", "imag"))
    return [value], Leaf()


def _several(
    kind: str, items: list[Any], keys: tuple[Any, ...] = ()
) -> tuple[list[Any], Structure]:
    parts = [flatten(item) for item in items]
    leaves = [leaf for found, _ in parts for leaf in found]
    return leaves, Several(kind, tuple(s for _, s in parts), keys)


def holds_complex(structure: Structure) -> bool:
    """Return True if one of the values is a complex array."""
    if isinstance(structure, Leaf):
        return False
    return structure.kind == COMPLEX or any(map(holds_complex, structure.parts))


def rebuild(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The values nested as they were."""
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
