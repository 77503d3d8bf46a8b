"""Why there is no entry: the parts of the keys that there are entries for, by what they are of."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

REMEMBERED = 8  # keys of one subject


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of a key: what it was for the entry that there is, and what it is now."""

    part: str
    then: str
    now: str


def remembered(data: bytes | None) -> list[dict[str, str]]:
    """The keys' parts, the last one last; none where the bytes are no list of them."""
    try:
        found = json.loads(data or b"[]")
        return [{str(part): str(text) for part, text in parts.items()} for parts in found]
    except (ValueError, AttributeError, TypeError):
        return []


def with_parts(data: bytes | None, parts: Mapping[str, str]) -> bytes:
    """The bytes with one more key's parts."""
    kept = [one for one in remembered(data) if one != dict(parts)]
    return json.dumps([*kept, dict(parts)][-REMEMBERED:]).encode()


def nearest(
    data: bytes | None, parts: Mapping[str, str], is_there: Callable[[Mapping[str, str]], bool]
) -> tuple[Difference, ...] | None:
    """The parts that differ from those of the entry that is most alike; none where it is this one,
    None where there is none.
    """
    told = [_differences(one, parts) for one in remembered(data) if is_there(one)]
    return min(reversed(told), key=len, default=None)


def _differences(then: Mapping[str, str], now: Mapping[str, str]) -> tuple[Difference, ...]:
    names = dict.fromkeys((*now, *then))
    return tuple(
        Difference(name, then.get(name, ""), now.get(name, ""))
        for name in names
        if then.get(name) != now.get(name)
    )
