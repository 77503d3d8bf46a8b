"""In which tiers a compilation lies, and what finding it there saves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from explorer import cache
from explorer.stored import programs
from explorer.stored.program_key import ProgramKey
from explorer.stored.why_not import WhyNot


@dataclass(frozen=True, slots=True)
class Tier:
    """A place to look: whether the whole program is there, and how many of its kernels."""

    name: str
    place: str
    program: bool
    kernels: int


@dataclass(frozen=True, slots=True)
class Kept:
    """What the key of a compilation is made of, None where it has none; the tiers in the order in
    which they are asked; and on a miss what differs from the nearest key.
    """

    wanted: ProgramKey | None
    why: WhyNot
    tiers: tuple[Tier, ...]
    kernels: int


def kept(wanted: ProgramKey | None, why: WhyNot, kernels: Iterable[str]) -> Kept:
    """Where a program and the kernels of these keys are now."""
    cache.finish()
    keys, key = tuple(dict.fromkeys(kernels)), wanted.key if wanted else None
    own, shared = cache.disk(), cache.team()
    tiers = [Tier("memory", "this process", programs.in_memory(key), len(keys))]
    for name, store in (("private", own), ("team", shared)):
        if store is not None:
            there = key is not None and store.has(key)
            tiers.append(Tier(name, str(store.folder), there, sum(map(store.has, keys))))
    return Kept(wanted, why, tuple(tiers), len(keys))
