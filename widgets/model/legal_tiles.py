"""Pinned tiles whose kernels have changed: Roller chooses their tiles again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from explorer.errors import BadOption, IronworksError
from explorer.options import Options
from explorer.roller import Options as RollerOptions

T = TypeVar("T")


def with_legal_tiles(roller: RollerOptions, compile: Callable[[RollerOptions], T]) -> T:
    """Compile without the pinned tiles and thread blocks for which compilation is refused."""
    while True:
        try:
            return compile(roller)
        except BadOption as problem:
            if (left := without_refused_tile(roller, problem)) == roller:
                raise
            roller = left


def without_refused_tile(roller: RollerOptions, problem: IronworksError) -> RollerOptions:
    """Return the options without the pinned tile that an error is about, if it is about one."""
    pinned = tuple(p for p in roller.pinned if p[0] != problem.where)
    blocks = tuple(b for b in roller.blocks if b[0] != problem.where)
    return replace(roller, pinned=pinned, blocks=blocks)


def tiles_left(before: Options, after: Options) -> Iterator[tuple[str, str]]:
    """Yield the pins that are gone: "tile" or "thread block", and the kernel's name."""
    for what, old, new in (
        ("tile", before.roller.pinned, after.roller.pinned),
        ("thread block", before.roller.blocks, after.roller.blocks),
    ):
        names = {name for name, _ in new}
        yield from ((what, name) for name, _ in old if name not in names)
