"""Scratch that is dead is used again: intermediates that never live at once lie in one buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import is_
from typing import Any

from explorer.ir.decisions import Micro
from explorer.ir.dims import Dim
from explorer.ir.kernel import Affine, Const, IndexValue
from explorer.ir.made_of import field_names, made_of
from explorer.ir.tile_program import Buffer, Span, Statement, TileProgram

BUFFERLESS = (Affine, Const, IndexValue, Micro, Span, str, int, float)


@dataclass(slots=True)
class _Room:
    """A buffer that several intermediates take in turn: until which statement it is taken."""

    first: Buffer
    size: Dim
    until: int


def share_scratch(program: TileProgram) -> TileProgram:
    """After: intermediates of the group tile (level L2) that do not live at once share a buffer.

    Each is written before it is read in every task, so what lay there before is never seen. A
    statement may name less than the whole buffer: what it names is the intermediate's own size.
    """
    lives = _lives(program.body)
    mine = [b for b in program.buffers if b.kind == "scratch" and b.level == "L2"]
    mine = sorted((b for b in mine if b.name in lives), key=lambda b: lives[b.name])
    if len(mine) < 3:
        return program
    rooms: list[_Room] = []
    names: dict[str, str] = {}
    for b in mine:
        first, last = lives[b.name]
        room = _free(rooms, b, first)
        if room is None:
            rooms.append(_Room(b, b.size, last))
            continue
        names[b.name], room.until = room.first.name, last
        room.size = _larger(room.size, b.size)
    if not names:
        return program
    sizes = {r.first.name: r.size for r in rooms}
    buffers = tuple(
        replace(b, size=sizes.get(b.name, b.size)) for b in program.buffers if b.name not in names
    )
    body = tuple(_renamed(s, names) for s in program.body)
    return replace(program, body=body, buffers=buffers)


def _free(rooms: list[_Room], b: Buffer, first: int) -> _Room | None:
    """The buffer that is free when `b` is first written and need grow least, if there is one."""
    free = [
        r
        for r in rooms
        if r.until < first
        and r.first.dtype == b.dtype
        and (r.size == b.size or (isinstance(r.size, int) and isinstance(b.size, int)))
    ]
    return min(free, key=lambda r: _growth(r.size, b.size), default=None)


def _growth(room: Dim, size: Dim) -> int:
    return abs(size - room) if isinstance(room, int) and isinstance(size, int) else 0


def _larger(a: Dim, b: Dim) -> Dim:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else a


def _lives(body: tuple[Statement, ...]) -> dict[str, tuple[int, int]]:
    """The first and the last statement of a task that touches a buffer, by its name."""
    found: dict[str, tuple[int, int]] = {}
    for n, s in enumerate(body):
        for part in made_of(s, *BUFFERLESS):
            if isinstance(part, Buffer):
                found[part.name] = (found.get(part.name, (n, n))[0], n)
    return found


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """A statement, or a part of one, on the buffers that intermediates have moved to. What stays as
    it was is the same object.
    """
    if isinstance(value, BUFFERLESS):
        return value
    if isinstance(value, Buffer):
        return replace(value, name=names[value.name]) if value.name in names else value
    if isinstance(value, tuple):
        moved = tuple([_renamed(v, names) for v in value])
        return value if all(map(is_, moved, value)) else moved
    parts = ((n, getattr(value, n)) for n in field_names(value.__class__))
    changed = {n: new for n, old in parts if (new := _renamed(old, names)) is not old}
    return replace(value, **changed) if changed else value
