"""Tiers of the cache that hold a compilation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from explorer import cache
from explorer.stored import programs
from explorer.stored.program_key import ProgramKey
from explorer.stored.why_not import WhyNot


@dataclass(frozen=True, slots=True)
class Tier:
    """A place to look: True if it has the whole program, and the number of its kernels there."""

    name: str
    place: str
    program: bool
    kernels: int


@dataclass(frozen=True, slots=True)
class Tiers:
    """The key of a compilation, or None; the tiers in lookup order; and the reason of a miss."""

    key: ProgramKey | None
    why: WhyNot
    tiers: tuple[Tier, ...]
    kernels: int


def find_tiers(program: ProgramKey | None, why: WhyNot, kernels: Iterable[str]) -> Tiers:
    """Return where a program and the kernels of these keys are now."""
    cache.finish()
    keys, digest = tuple(dict.fromkeys(kernels)), program.key if program else None
    own, shared = cache.disk(), cache.team()
    tiers = [Tier("memory", "this process", programs.in_memory(digest), len(keys))]
    for name, store in (("private", own), ("team", shared)):
        if store is not None:
            there = digest is not None and store.has(digest)
            tiers.append(Tier(name, str(store.folder), there, sum(map(store.has, keys))))
    return Tiers(program, why, tuple(tiers), len(keys))
