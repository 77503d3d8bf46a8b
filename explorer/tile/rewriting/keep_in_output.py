"""Scratch rows that a map copies to an output, point by point, are computed in the output itself.

e[r] = exp(x[r]); ...; y[row, r] = e[r] * s
->
y[row, r] = exp(x[r]); ...; y[row, r] = y[row, r] * s
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.affine import Affine
from explorer.ir.shapes.dims import product
from explorer.ir.tile_programs.elements import Buffer, Fetch, fetches
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import For, Map, Statement
from explorer.ir.tile_programs.traversal import Part, parts_of, with_buffers, without_unused


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
