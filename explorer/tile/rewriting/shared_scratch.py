"""Buffer sharing: intermediates that are never live at once share scratch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.shapes.dims import Dim
from explorer.ir.tile_programs.elements import Buffer
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import Statement
from explorer.ir.tile_programs.traversal import renamed, touched


@dataclass(slots=True)
class _Slot:
    """A buffer that several intermediates use in turn; `until` is its last statement in use."""

    first: Buffer
    size: Dim
    until: int


def share_scratch(program: TileProgram, device: Device) -> TileProgram:
    """Let intermediates of the group tile (level L2) with disjoint live ranges share a buffer.

    Each is written before it is read in every task, so the old content is never seen. A statement
    may access less than the whole buffer: it accesses the intermediate's own size.
    """
    lives = _live_ranges(program.body)
    candidates = [b for b in program.buffers if b.kind == "scratch" and b.level == "L2"]
    candidates = sorted((b for b in candidates if b.name in lives), key=lambda b: lives[b.name])
    if len(candidates) < 3:
        return program
    slots: list[_Slot] = []
    names: dict[str, str] = {}
    for b in candidates:
        first, last = lives[b.name]
        slot = _find_free(slots, b, first)
        if slot is None:
            slots.append(_Slot(b, b.size, last))
            continue
        names[b.name], slot.until = slot.first.name, last
        slot.size = _larger(slot.size, b.size)
    if not names:
        return program
    sizes = {r.first.name: r.size for r in slots}
    buffers = tuple(
        replace(b, size=sizes.get(b.name, b.size)) for b in program.buffers if b.name not in names
    )
    body = tuple(renamed(s, names) for s in program.body)
    return replace(program, body=body, buffers=buffers)


def _find_free(slots: list[_Slot], b: Buffer, first: int) -> _Slot | None:
    """Return the buffer that is free when `b` is first written and need grow least, or None."""
    free = [
        r
        for r in slots
        if r.until < first
        and r.first.dtype == b.dtype
        and (r.size == b.size or (isinstance(r.size, int) and isinstance(b.size, int)))
    ]
    return min(free, key=lambda r: _growth(r.size, b.size), default=None)


def _growth(old_size: Dim, size: Dim) -> int:
    return abs(size - old_size) if isinstance(old_size, int) and isinstance(size, int) else 0


def _larger(a: Dim, b: Dim) -> Dim:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else a


def _live_ranges(body: tuple[Statement, ...]) -> dict[str, tuple[int, int]]:
    """Return the live range of each buffer: the first and the last statement that touches it."""
    ranges: dict[str, tuple[int, int]] = {}
    for n, s in enumerate(body):
        for b in touched(s):
            ranges[b.name] = (ranges.get(b.name, (n, n))[0], n)
    return ranges
