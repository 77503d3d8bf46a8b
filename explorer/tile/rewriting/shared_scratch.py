"""Scratch that is dead is used again: intermediates that never live at once lie in one buffer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.shapes.dims import Dim
from explorer.ir.tile_programs.elements import Buffer
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import Statement
from explorer.ir.tile_programs.traversal import renamed, touched


@dataclass(slots=True)
class _Room:
    """A buffer that several intermediates take in turn: until which statement it is taken."""

    first: Buffer
    size: Dim
    until: int


def share_scratch(program: TileProgram, device: Device) -> TileProgram:
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
    body = tuple(renamed(s, names) for s in program.body)
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
        for b in touched(s):
            found[b.name] = (found.get(b.name, (n, n))[0], n)
    return found
