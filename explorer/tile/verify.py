"""What a tile program must be before anybody prints it for a device."""

from __future__ import annotations

from explorer.devices.model import Device
from explorer.errors import CheckFailed
from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.shapes.dims import whole
from explorer.ir.tile_programs.elements import REGISTER, Buffer
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import For, Shuffle, Sync
from explorer.ir.tile_programs.traversal import dealt, statements, threads_of, touched
from explorer.tile.hazards import race
from explorer.tile.sync_places import Parts, parts_of_block

WORD_BYTES = 4  # of a register
ALIGNED_BYTES = 16  # where an array in shared memory begins, for any dtype and vector; chosen


def verify(p: TileProgram, device: Device) -> None:
    """After: every buffer lies in a level that the device has, with room for it where nothing but
    the program manages the level; all that threads do is dealt out; and a Sync stands between
    whatever two threads do to one element, where one of them writes it.

    Raises CheckFailed with the first rule that the program breaks.
    """
    why = level_problem(p, device) or _block_problem(p, device)
    if why:
        raise CheckFailed(why)


def level_problem(p: TileProgram, device: Device) -> str:
    """The first buffer that the device has no such level or no room for; empty where there is."""
    names = [m.name for m in device.levels]
    for b in p.buffers:
        if b.level not in (*names, REGISTER):
            return f"{b.name} lies in {b.level}, and {device.name} has {', '.join(names)}"
    return _room_problem(p, device) if device.kind == "gpu" else ""


def shared_bytes(p: TileProgram, device: Device) -> int:
    """Bytes of a block's scratch in shared memory, the nearest level of a GPU: its arrays one
    behind the other.
    """
    return sum(room_bytes(b) for b in _scratch(p, device.levels[0].name))


def room_bytes(b: Buffer) -> int:
    """From the beginning of an array in shared memory to that of the next."""
    return -(-_bytes(b) // ALIGNED_BYTES) * ALIGNED_BYTES


def _room_problem(p: TileProgram, device: Device) -> str:
    for b in p.buffers:
        if b.kind == "scratch" and not isinstance(b.size, int):
            return f"{b.name} has {b.size} elements: how many is known under a binding only"
    used, room = shared_bytes(p, device), device.block_shared_bytes
    if used > room:
        return f"a block's scratch takes {used} bytes, a block of {device.name} has {room}"
    words = sum(-(-_bytes(b) // WORD_BYTES) for b in _scratch(p, REGISTER))
    if 0 < device.thread_registers < words:
        have = f"one of {device.name} has {device.thread_registers}"
        return f"a thread keeps {words} registers, {have}"
    return ""


def _scratch(p: TileProgram, level: str) -> list[Buffer]:
    return [b for b in p.buffers if b.kind == "scratch" and b.level == level]


def _bytes(b: Buffer) -> int:
    return whole(b.size) * ITEM_BYTES[b.dtype]


def _block_problem(p: TileProgram, device: Device) -> str:
    """What is wrong with how threads share the work; nothing where there are none."""
    threads = threads_of(p.body)
    if not threads:
        alone = any(isinstance(s, Sync) for s in statements(p.body))
        return "a Sync stands where there are no threads" if alone else ""
    if threads > device.block_threads:
        return f"a block has {threads} threads, one of {device.name} {device.block_threads}"
    for s in statements(p.body):
        if isinstance(s, Sync) and s.scope == "warp" and threads > device.lanes:
            return f"a Sync is of a warp of {device.lanes}, and the block has {threads} threads"
        if isinstance(s, Shuffle) and (why := _shuffle_problem(s, threads, device)):
            return why
    parts = parts_of_block(p)
    for part in parts.parts:
        if isinstance(part.statement, Shuffle):
            continue
        if not (isinstance(part.statement, For) and part.statement.threads is not None):
            return "a statement stands outside of what is dealt out: every thread would do it"
    return _register_problem(parts) or race(p)


def _shuffle_problem(s: Shuffle, threads: int, device: Device) -> str:
    """Lanes read each other's registers within one warp, all of whose threads are there."""
    if s.lanes > device.lanes or s.lanes & (s.lanes - 1):
        return f"{s.lanes} threads shuffle, a power of two up to a warp of {device.lanes} can"
    if threads % device.lanes:
        return f"a warp of {device.lanes} shuffles, and not all {threads} threads are in whole ones"
    if s.target.buffer.level != REGISTER:
        return f"{s.target.buffer.name} is shuffled, and lies in no register"
    return ""


def _register_problem(parts: Parts) -> str:
    """A thread finds in its registers what it left there itself: all parts with one buffer of them
    are dealt out in the same way.
    """
    known: dict[str, object] = {}
    for part in (x for x in parts.parts if not isinstance(x.statement, Shuffle)):
        loops = dealt(part.statement)[0] if isinstance(part.statement, For) else ()
        way = [(x.span.size, x.threads) for x in loops]
        for b in {b for b in touched(part.statement) if b.level == REGISTER}:
            if known.setdefault(b.name, way) != way:
                return f"{b.name} is in registers of one thread, and another one would read it"
    return ""
