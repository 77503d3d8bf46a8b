"""Scratch rows that a map copies to an output, point by point, are computed in the output itself.

e[r] = exp(x[r]); ...; y[row, r] = e[r] * s
->
y[row, r] = exp(x[r]); ...; y[row, r] = y[row, r] * s

Other scratch whose lifetimes are apart shares memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.affine import Affine
from explorer.ir.dims import Dim, product
from explorer.ir.tile_program import Buffer, Fetch, For, Map, Statement, TileProgram, fetches
from explorer.ir.tile_traversal import (
    Part,
    parts_of,
    renamed,
    touched,
    with_buffers,
    without_unused,
)


def keep_in_output(p: TileProgram, device: Device) -> TileProgram:
    """Compute rows of scratch in the output that they are copied to, where possible."""
    return p if p.updates else without_unused(replace(p, body=in_output(p.body)))


def in_output(body: Iterable[Statement], only_here: bool = True) -> tuple[Statement, ...]:
    """Compute rows of scratch in the output that they are copied to, where possible.

    `only_here`: nothing outside of these statements accesses their buffers.
    """
    statements = tuple(
        replace(s, body=in_output(s.body, only_here and _is_alone(s, body)))
        if isinstance(s, For)
        else s
        for s in body
    )
    if not only_here:
        return statements
    for s in reversed(statements):
        for m in parts_of(s):
            move = _move(m, statements) if isinstance(m, Map) else None
            if move is not None:
                return in_output(tuple(move.statement(x) for x in statements))
    return statements


def _is_alone(s: Statement, body: Iterable[Statement]) -> bool:
    return all(x is s for x in body)


def _move(m: Map, statements: tuple[Statement, ...]) -> _Move | None:
    """Return how a buffer that the map reads moves into its target; None if none can."""
    if m.target.buffer.kind != "output" or m.target.dynamic:
        return None
    if m.target.buffer.streamed or _is_clipped(
        m
    ):  # streamed results are not read again; clipped maps leave the buffer
        return None
    scratch = [f for f in dict.fromkeys(fetches(m.expr)) if f.buffer.kind == "scratch"]
    if not scratch:
        return None
    everything = [p for s in statements for p in parts_of(s)]
    if any(not parts_of(s) for s in statements) or _access_count(everything, m.target.buffer) != 1:
        return None
    size = product(tuple(s.size for s in m.spans))
    for f in scratch:
        if f.buffer.dtype != m.target.buffer.dtype or f.dynamic or f.buffer.size != size:
            continue
        distance = m.target.offset - f.offset
        if not distance.variables & {s.axis for s in m.spans} and _is_written_once(
            f.buffer, everything
        ):
            return _Move(f.buffer, m.target.buffer, distance)
    return None


def _access_count(parts: list[Part], buffer: Buffer) -> int:
    """Return how often a buffer is read or written."""
    return sum(f.buffer == buffer for p in parts for f in (p.target, *fetches(p.expr)))


def _is_clipped(m: Map) -> bool:
    """Return True if a map is clipped, so that it would leave the buffer at an edge."""
    return any(s.clip_low or s.clip_high for s in m.spans)


def _is_written_once(buffer: Buffer, parts: list[Part]) -> bool:
    """Return True if a map writes all of the buffer once, and no element is indexed by data."""
    writers = [p for p in parts if p.target.buffer == buffer]
    if len(writers) != 1 or not isinstance(writers[0], Map) or _is_clipped(writers[0]):
        return False
    if product(tuple(s.size for s in writers[0].spans)) != buffer.size:
        return False
    return not any(f.buffer == buffer and f.dynamic for p in parts for f in fetches(p.expr))


@dataclass(frozen=True, slots=True)
class _Move:
    """A replacement of every access of a buffer by one of another buffer, a distance further."""

    source: Buffer
    target: Buffer
    distance: Affine

    def statement(self, s: Statement) -> Statement:
        """Return a statement with its accesses replaced."""
        return with_buffers(s, lambda b: b, self.fetch) if parts_of(s) else s

    def fetch(self, f: Fetch) -> Fetch:
        """Return an access in the other buffer."""
        if f.buffer != self.source:
            return f
        return Fetch(self.target, f.offset + self.distance)


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
