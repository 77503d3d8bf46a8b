"""What a task need not do again: a statement that the inner tile variables do not reach holds for
all tasks in a row that differ in those alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.ir.kernel import Affine
from explorer.ir.made_of import made_of
from explorer.ir.tile_program import (
    Buffer,
    Fetch,
    Fill,
    For,
    Load,
    Map,
    Pack,
    Panels,
    Reduce,
    TileProgram,
)


def levels(p: TileProgram) -> tuple[int, ...]:
    """For each statement of the body, how many leading grid variables it depends on.

    A copy into scratch that reads what only `rows` choose has level 1 in the grid `(rows, columns)`
    and is done once for a row of tasks. What is stored to memory is done by every task.
    """
    place = {g.variable: n + 1 for n, g in enumerate(p.grid)}
    made = [frozenset(_written(s)) for s in p.body]
    known = [frozenset(b.name for b in made_of(s) if isinstance(b, Buffer)) for s in p.body]
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


def _own_level(s: object, place: dict[str, int], every: int) -> int:
    known = isinstance(s, For | Fill | Load | Map | Pack | Panels | Reduce)
    if not known or any(b.kind != "scratch" for b in _targets(s)):
        return every
    used = (v for a in made_of(s) if isinstance(a, Affine) for v in a.variables)
    return max((place.get(v, 0) for v in used), default=0)


def _written(s: object) -> Iterator[str]:
    return (b.name for b in _targets(s))


def _targets(s: object) -> Iterator[Buffer]:
    """The buffers that a statement writes; all that it touches where it is of no known kind."""
    match s:
        case For(_, body):
            for inner in body:
                yield from _targets(inner)
        case Fill(target, _) | Pack(target, _, _, _, _):
            yield target
        case Load(Fetch(buffer), _, _) | Map(Fetch(buffer), _, _):
            yield buffer
        case Reduce(target=Fetch(buffer)):
            yield buffer
        case Panels(_, _, _, contract, table, epilogue):
            yield from (contract.acc, table)
            yield from _targets(epilogue)
        case _:
            yield from (b for b in made_of(s) if isinstance(b, Buffer) and b.kind == "scratch")
