"""The memories that Welder places tiles in, nearest first, and the size of their transfers."""

from __future__ import annotations

from explorer.devices.model import Device, LevelMemory
from explorer.devices.target import target_of

REGISTER, SHARED, LAST = "register", "shared", "DRAM"
REGISTER_BYTES = 4  # of one register of a GPU's thread, and of one lane of a vector


def memories(device: Device) -> tuple[LevelMemory, ...]:
    """Return registers, caches or shared memory, and DRAM, nearest first."""
    return target_of(device).memories(device)


def has_registers(device: Device, elements: int) -> bool:
    """Return True if a task may compute a tensor's tile of so many elements."""
    most = target_of(device).most_elements(device)
    return most is None or elements <= most


def resident(device: Device, tile_bytes: int, elements: int) -> int:
    """Return the number of tasks that a unit holds at the same time.

    `tile_bytes` are those of a task's tile, `elements` those of its largest tensor.
    """
    return target_of(device).resident(device, tile_bytes, elements)


def waves(device: Device, grid: int, together: int) -> int:
    """Return the number of times that all units take as many tasks as they hold."""
    return max(1, -(-grid // max(1, together * device.units)))
