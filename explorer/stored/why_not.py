"""Why a compilation is not found on disk: the part of its key that differs from the nearest one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer import cache
from explorer.cache import Difference
from explorer.stored.program_key import ProgramKey

FOLLOWS = frozenset({"steps", "device", "packages"})  # from other parts, which say it better


@dataclass(frozen=True, slots=True)
class WhyNot:
    """`found`: it would be found. Else `differs` from the nearest entry of a model of this name,
    or there is none; `untold`: nothing of it is ever kept.
    """

    model: str
    found: bool
    differs: tuple[Difference, ...] = ()
    untold: bool = False


def why_not(model: str, wanted: ProgramKey | None) -> WhyNot:
    """The answer for what is wanted, None where it cannot be kept."""
    if wanted is None:
        return WhyNot(model, found=False, untold=True)
    cache.finish()
    if cache.has(wanted.key):
        return WhyNot(model, found=True)

    def is_there(parts: Mapping[str, str]) -> bool:
        return cache.has(ProgramKey(model, parts).key)

    found = cache.differences(model, wanted.parts, is_there) or ()
    told = tuple(d for d in found if d.part not in FOLLOWS)
    return WhyNot(model, found=False, differs=told or found)
