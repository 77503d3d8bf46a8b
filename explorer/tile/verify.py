"""The rules that a tile program must keep before it is printed for a device."""

from __future__ import annotations

from explorer.devices.model import Device
from explorer.errors import CheckFailed
from explorer.ir.dims import concrete_dim
from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.tile_program import REGISTER, Buffer, For, Shuffle, Sync, TileProgram
from explorer.ir.tile_traversal import distributed_loops, statements, threads_of, touched
from explorer.tile.hazards import race
from explorer.tile.sync_places import Parts, parts_of_block

WORD_BYTES = 4  # of a register
ALIGNED_BYTES = 16  # alignment of arrays in shared memory, for any dtype and vector; chosen


def verify(p: TileProgram, device: Device) -> None:
    """Check a tile program; raise CheckFailed with the first rule that it breaks.

    Every buffer lies in a level of the device, with room for it if the program manages the level.
    All work of threads is distributed. A Sync separates two threads' accesses of one element, one
    of which writes it.
    """
    why = level_problem(p, device) or _block_problem(p, device)
    if why:
        raise CheckFailed(why)


def level_problem(p: TileProgram, device: Device) -> str:
    """Return a sentence about the first buffer without level or room; else an empty string."""
    names = [m.name for m in device.levels]
    for b in p.buffers:
        if b.level not in (*names, REGISTER):
            return f"{b.name} lies in {b.level}, and {device.name} has {', '.join(names)}"
    return _room_problem(p, device) if device.block_shared_bytes else ""


def shared_bytes(p: TileProgram, device: Device) -> int:
    """Return the bytes of a block's scratch in shared memory, its arrays one behind the other.

    Shared memory is the nearest level of a GPU.
    """
    return sum(room_bytes(b) for b in _scratch(p, device.levels[0].name))


def room_bytes(b: Buffer) -> int:
    """Return the bytes from the beginning of an array in shared memory to that of the next."""
    return -(-_bytes(b) // ALIGNED_BYTES) * ALIGNED_BYTES


def _room_problem(p: TileProgram, device: Device) -> str:
    """Return a sentence about scratch or registers that a GPU has no room for; else ""."""
    for b in p.buffers:
        if b.kind == "scratch" and not isinstance(b.size, int):
            return f"{b.name} has {b.size} elements: its size is unknown without a binding"
    used, available = shared_bytes(p, device), device.block_shared_bytes
    if used > available:
        return (
            f"a block's scratch takes {used} bytes, a block of {device.name} has {available} bytes"
        )
    words = sum(-(-_bytes(b) // WORD_BYTES) for b in _scratch(p, REGISTER))
    if 0 < device.thread_registers < words:
        have = f"one of {device.name} has {device.thread_registers}"
        return f"a thread keeps {words} registers, {have}"
    return ""


def _scratch(p: TileProgram, level: str) -> list[Buffer]:
    return [b for b in p.buffers if b.kind == "scratch" and b.level == level]


def _bytes(b: Buffer) -> int:
    return concrete_dim(b.size) * ITEM_BYTES[b.dtype]


def _block_problem(p: TileProgram, device: Device) -> str:
    """Return a sentence about how threads share the work wrongly; empty if there are no threads."""
    threads = threads_of(p.body)
    if not threads:
        has_sync = any(isinstance(s, Sync) for s in statements(p.body))
        return "a Sync is in a program without threads" if has_sync else ""
    if threads > device.block_threads:
        return f"a block has {threads} threads, {device.name} allows {device.block_threads}"
    for s in statements(p.body):
        if isinstance(s, Sync) and s.scope == "warp" and threads > device.lanes:
            return f"a Sync is of a warp of {device.lanes}, but the block has {threads} threads"
        if isinstance(s, Shuffle) and (why := _shuffle_problem(s, threads, device)):
            return why
    parts = parts_of_block(p)
    for part in parts.parts:
        if isinstance(part.statement, Shuffle):
            continue
        if not (isinstance(part.statement, For) and part.statement.threads is not None):
            return "a statement is outside of distributed loops: every thread would run it"
    return _register_problem(parts) or race(p)


def _shuffle_problem(s: Shuffle, threads: int, device: Device) -> str:
    """Check that lanes read registers within one warp, all of whose threads exist."""
    if s.lanes > device.lanes or s.lanes & (s.lanes - 1):
        return f"{s.lanes} threads shuffle, expected a power of two up to {device.lanes}"
    if threads % device.lanes:
        return f"a warp of {device.lanes} shuffles, but {threads} threads are not whole warps"
    if s.target.buffer.level != REGISTER:
        return f"{s.target.buffer.name} is shuffled, but is not in a register"
    return ""


def _register_problem(parts: Parts) -> str:
    """Check that a thread's registers hold what it stored itself.

    All parts with one buffer in registers must be distributed alike.
    """
    distributions: dict[str, object] = {}
    for part in (x for x in parts.parts if not isinstance(x.statement, Shuffle)):
        loops = distributed_loops(part.statement)[0] if isinstance(part.statement, For) else ()
        distribution = [(x.span.size, x.threads) for x in loops]
        for b in {b for b in touched(part.statement) if b.level == REGISTER}:
            if distributions.setdefault(b.name, distribution) != distribution:
                return f"{b.name} is in registers of one thread, but another one would read it"
    return ""
