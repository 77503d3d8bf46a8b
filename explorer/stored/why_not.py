"""Reason why a compilation is not on disk: the parts of its key that differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer import cache
from explorer.cache import Difference
from explorer.stored.program_key import ProgramKey

FOLLOWS = frozenset({"steps", "device", "packages"})  # from other parts, which say it better


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Answer to the question whether a compilation is on disk.

    `is_cached`: it is. Otherwise `differs` lists the parts that differ from the nearest entry of a
    model of this name. `is_unstorable`: such a compilation is never stored.
    """

    model: str
    is_cached: bool
    differs: tuple[Difference, ...] = ()
    is_unstorable: bool = False


def why_not(model: str, key: ProgramKey | None) -> WhyNot:
    """Return the reason for a key, which is None if the compilation cannot be stored."""
    if key is None:
        return WhyNot(model, is_cached=False, is_unstorable=True)
    cache.finish()
    if cache.has(key.key):
        return WhyNot(model, is_cached=True)

    def is_there(parts: Mapping[str, str]) -> bool:
        return cache.has(ProgramKey(model, parts).key)

    differing = cache.differences(model, key.parts, is_there) or ()
    primary = tuple(d for d in differing if d.part not in FOLLOWS)
    return WhyNot(model, is_cached=False, differs=primary or differing)
