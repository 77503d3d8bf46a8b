"""Hoisting of statements that do not depend on the inner tile variables.

Such a statement is valid for all consecutive tasks that differ in those variables alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from explorer.devices.model import Device
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import Find, Once, Scan, Statement
from explorer.ir.tile_programs.traversal import statements, touched, variables, writes


def hoist(p: TileProgram, device: Device) -> TileProgram:
    """Let the first of several consecutive tasks compute what they share."""
    every = len(p.grid)
    body: list[Statement] = []
    for level, run in groupby(zip(levels(p), p.body, strict=True), key=itemgetter(0)):
        hoisted = tuple(s for _, s in run)
        body += hoisted if level == every else (Once(level, hoisted),)
    return replace(p, body=tuple(body))


def levels(p: TileProgram) -> tuple[int, ...]:
    """Return for each statement of the body how many leading grid variables it depends on.

    A copy into scratch that depends on `rows` alone has level 1 in the grid `(rows, columns)` and
    is done once for a row of tasks. Every task does its stores to memory.
    """
    place = {g.variable: n + 1 for n, g in enumerate(p.grid)}
    place |= {s.name: len(p.grid) for s in p.body if isinstance(s, Find)}  # any value
    written = [frozenset(b.name for b in writes(s)) for s in p.body]
    accessed = [frozenset(b.name for b in touched(s)) for s in p.body]
    level_of = [_own_level(s, place, len(p.grid)) for s in p.body]
    overwritten = _overwritten(written, accessed)
    dependent = [out | (names & overwritten) for out, names in zip(written, accessed, strict=True)]
    for _ in level_of:  # a level that rises may lift others, each at most once
        for n, names in enumerate(accessed):
            sharing = (level_of[m] for m, out in enumerate(dependent) if out & names)
            level_of[n] = max(level_of[n], *sharing, 0)
    return tuple(level_of)


def _overwritten(written: Sequence[frozenset[str]], accessed: Sequence[frozenset[str]]) -> set[str]:
    """Return the buffers that hold several values in turn.

    A reader of the first must come before the second is written, in every task.
    """
    read: set[str] = set()
    overwritten: set[str] = set()
    for out, names in zip(written, accessed, strict=True):
        overwritten |= read & out
        read |= names - out
    return overwritten


def _own_level(s: Statement, place: Mapping[str, int], every: int) -> int:
    in_scratch = all(b.kind == "scratch" for b in writes(s))
    if not in_scratch or any(isinstance(inner, Find | Scan) for inner in statements((s,))):
        return every
    return max((place.get(v, 0) for v in variables(s)), default=0)
