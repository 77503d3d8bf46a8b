"""What a task need not do again: a statement that the inner tile variables do not reach holds for
all tasks in a row that differ in those alone.
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
    """After: what several tasks in a row share is done by the first of them."""
    every = len(p.grid)
    body: list[Statement] = []
    for level, run in groupby(zip(levels(p), p.body, strict=True), key=itemgetter(0)):
        found = tuple(s for _, s in run)
        body += found if level == every else (Once(level, found),)
    return replace(p, body=tuple(body))


def levels(p: TileProgram) -> tuple[int, ...]:
    """For each statement of the body, how many leading grid variables it depends on.

    A copy into scratch that reads what only `rows` choose has level 1 in the grid `(rows, columns)`
    and is done once for a row of tasks. What is stored to memory is done by every task.
    """
    place = {g.variable: n + 1 for n, g in enumerate(p.grid)}
    place |= {s.name: len(p.grid) for s in p.body if isinstance(s, Find)}  # data may say anything
    made = [frozenset(b.name for b in writes(s)) for s in p.body]
    known = [frozenset(b.name for b in touched(s)) for s in p.body]
    found = [_own_level(s, place, len(p.grid)) for s in p.body]
    again = _written_again(made, known)
    tied = [out | (names & again) for out, names in zip(made, known, strict=True)]
    for _ in found:  # a level that rises may lift others, each at most once
        for n, names in enumerate(known):
            sharing = (found[m] for m, out in enumerate(tied) if out & names)
            found[n] = max(found[n], *sharing, 0)
    return tuple(found)


def _written_again(made: Sequence[frozenset[str]], known: Sequence[frozenset[str]]) -> set[str]:
    """Buffers that hold one thing after the other: who reads the first must come before the second
    is written, in every task.
    """
    read: set[str] = set()
    again: set[str] = set()
    for out, names in zip(made, known, strict=True):
        again |= read & out
        read |= names - out
    return again


def _own_level(s: Statement, place: Mapping[str, int], every: int) -> int:
    kept = all(b.kind == "scratch" for b in writes(s))
    if not kept or any(isinstance(one, Find | Scan) for one in statements((s,))):
        return every
    return max((place.get(v, 0) for v in variables(s)), default=0)
