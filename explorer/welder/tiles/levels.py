"""The memories that Welder places tiles in, nearest first, and the size of their transfers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from explorer.devices.model import Device

REGISTER, SHARED, LAST = "register", "shared", "DRAM"
REGISTER_BYTES = 4  # of one register of a GPU's thread, and of one lane of a vector
GPU_BLOCKS = 4  # resident blocks of a unit at most (Welder artifact)


@dataclass(frozen=True, slots=True)
class LevelMemory:
    """One memory level as a tile sees it.

    `capacity`: bytes that a task has (None: all). `read_bytes`, `write_bytes`: the size of one
    transfer between this memory and the next farther one. A cache moves whole lines, and keeps what
    consecutive tasks share for as long as it has room.
    """

    name: str
    capacity: int | None
    read_bytes: int
    write_bytes: int
    gb_per_s: float  # of all units together, from the next farther memory
    shared: bool = False
    cache: bool = False


def memories(device: Device) -> tuple[LevelMemory, ...]:
    """Return registers, caches or shared memory, and DRAM, nearest first.

    On a GPU the cache between shared memory and DRAM is left out: no tile is placed in it (Welder,
    section 3.2; transactions of the artifact: what DRAM reads at once, what the L2 writes at once).
    """
    return _gpu(device) if device.kind == "gpu" else _cpu(device)


def _cpu(device: Device) -> tuple[LevelMemory, ...]:
    levels = device.levels
    room = device.registers * device.lanes * REGISTER_BYTES
    levels_so_far = [LevelMemory(REGISTER, room, 1, 1, device.all_gb_per_s(levels[0]))]
    for near, far in pairwise(levels):
        line, capacity, speed = near.line_bytes, near.capacity_bytes, device.all_gb_per_s(far)
        levels_so_far.append(LevelMemory(near.name, capacity, line, line, speed, near.shared, True))
    return (*levels_so_far, LevelMemory(levels[-1].name, None, 1, 1, 0.0, True))


def _gpu(device: Device) -> tuple[LevelMemory, ...]:
    near, far = device.levels[0], device.levels[-1]
    room = device.thread_registers * REGISTER_BYTES  # of a thread, whose tile registers hold
    write = device.transaction_bytes or far.line_bytes
    speed = device.all_gb_per_s(near), device.all_gb_per_s(far)
    return (
        LevelMemory(REGISTER, room, 1, 1, speed[0]),
        LevelMemory(SHARED, near.capacity_bytes, far.line_bytes, write, speed[1]),
        LevelMemory(far.name, None, 1, 1, 0.0, True),
    )


def most_elements(device: Device) -> int | None:
    """Return the number of elements of a tensor that a task may compute at most (None: no limit).

    The threads of a GPU's warps keep what their block computes in registers, all of it at once, and
    as many again beside it (Welder artifact). Threads that share no instruction (one lane: those of
    an IPU's tile) loop over the memory of their unit, in pieces of `thread_registers` at most.
    Their results are there, where the footprint is counted, and no register limits it.
    """
    warps = device.kind == "gpu" and device.lanes > 1
    return device.block_registers // 2 if warps else None


def has_registers(device: Device, elements: int) -> bool:
    """Return True if a task may compute a tensor's tile of so many elements."""
    most = most_elements(device)
    return most is None or elements <= most


def resident(device: Device, shared_bytes: int, elements: int) -> int:
    """Return the number of tasks that a unit holds at the same time.

    It is one on a CPU. On a GPU it is as many blocks as are allowed and fit shared memory and
    registers; `elements` are those of the largest tile of a block.
    """
    if device.kind != "gpu":
        return 1
    together = min(GPU_BLOCKS, device.unit_blocks or GPU_BLOCKS)
    together = min(together, device.unit_shared_bytes // max(1, shared_bytes))
    most = most_elements(device)
    if most is not None:
        together = min(together, most // max(1, elements))
    return max(1, together)


def waves(device: Device, grid: int, together: int) -> int:
    """Return the number of times that all units take as many tasks as they hold."""
    return max(1, -(-grid // max(1, together * device.units)))
