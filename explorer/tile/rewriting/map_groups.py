"""The order of maps: those over the same points become one loop, and shared parts are hoisted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from explorer.devices.model import Device
from explorer.ir.affine import var
from explorer.ir.tile_program import Find, Map, Once, OnePass, Scan, Statement, TileProgram, fetches
from explorer.ir.tile_traversal import moved, statements, substitute, touched, variables, writes
from explorer.tile.rewriting.loop_form import vector_form

MOST_MAPS = 8  # of one loop, whose loads stay in registers; chosen, no measurement kept


def group_maps(p: TileProgram, device: Device) -> TileProgram:
    """Join runs of maps that one vectorised loop can compute into one `OnePass`."""
    body: list[Statement] = []
    for group in together(p.body, device):
        maps = tuple(m for m in group if isinstance(m, Map))
        body += [OnePass(maps)] if len(maps) > 1 else group
    return replace(p, body=tuple(body))


def together(body: Sequence[Statement], device: Device) -> list[tuple[Statement, ...]]:
    """Return the statements in order, with runs of maps that share a loop."""
    groups: list[tuple[Statement, ...]] = []
    for s in body:
        joined = _join(groups[-1], s, device) if groups and isinstance(s, Map) else None
        if joined is not None:
            groups[-1] = (*groups[-1], joined)
        else:
            groups.append((s,))
    return groups


def _join(group: tuple[Statement, ...], new: Map, device: Device) -> Map | None:
    """Return the map under the axes of the maps before it, or None.

    None if it has other points, or reads what they write (but an output at the same point), or
    writes what they read.
    """
    maps = tuple(m for m in group if isinstance(m, Map))
    if len(maps) < len(group) or len(maps) == MOST_MAPS:
        return None
    if new.target.buffer in {f.buffer for m in maps for f in fetches(m.expr)}:
        return None
    first = maps[0]
    names = {s.axis: f.axis for s, f in zip(new.spans, first.spans, strict=False)}
    if tuple(replace(s, axis=names.get(s.axis, s.axis)) for s in new.spans) != first.spans:
        return None
    values = {old: var(axis) for old, axis in names.items() if old != axis}
    joined = Map(moved(new.target, values), first.spans, substitute(new.expr, values))
    targets = {m.target.buffer: m.target for m in maps}
    for f in fetches(joined.expr):
        if f.buffer in targets and (f.buffer.kind != "output" or f != targets[f.buffer]):
            return None
    return joined if vector_form(OnePass((*maps, joined)), device) is not None else None


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
