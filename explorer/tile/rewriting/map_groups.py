"""Grouping of maps over the same points into one loop, which computes shared parts once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.devices.model import Device
from explorer.ir.affine import var
from explorer.ir.tile_programs.elements import fetches
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import Map, OnePass, Statement
from explorer.ir.tile_programs.traversal import moved, substitute
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
