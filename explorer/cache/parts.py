"""Parts of the keys that have entries, by subject, to explain a miss."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

REMEMBERED = 8  # keys of one subject


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of a key: its text in the existing entry, and its text now."""

    part: str
    then: str
    now: str


def remembered(data: bytes | None) -> list[dict[str, str]]:
    """Return the parts of each key, the newest last; none if the bytes are damaged."""
    try:
        keys = json.loads(data or b"[]")
        return [{str(part): str(text) for part, text in parts.items()} for parts in keys]
    except (ValueError, AttributeError, TypeError):
        return []


def with_parts(data: bytes | None, parts: Mapping[str, str]) -> bytes:
    """Return the bytes with the parts of one more key."""
    others = [key for key in remembered(data) if key != dict(parts)]
    return json.dumps([*others, dict(parts)][-REMEMBERED:]).encode()


def nearest(
    data: bytes | None, parts: Mapping[str, str], is_there: Callable[[Mapping[str, str]], bool]
) -> tuple[Difference, ...] | None:
    """Return the parts that differ from those of the most similar entry.

    The result is empty if an entry has these parts, and None if there is no entry.
    """
    changes = [_differences(key, parts) for key in remembered(data) if is_there(key)]
    return min(reversed(changes), key=len, default=None)


def _differences(then: Mapping[str, str], now: Mapping[str, str]) -> tuple[Difference, ...]:
    """Return the parts that differ between two keys."""
    names = dict.fromkeys((*now, *then))
    return tuple(
        Difference(name, then.get(name, ""), now.get(name, ""))
        for name in names
        if then.get(name) != now.get(name)
    )
