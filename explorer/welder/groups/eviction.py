"""The cost of values that are evicted from cache before they are read."""

from __future__ import annotations

from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Refusal
from explorer.welder.groups.groups import Facts, Merge
from explorer.welder.model import bytes_at_hint


def evicted_us(merge: Merge, facts: Facts) -> float:
    """Return the time of storing a value and loading it again if no shared cache holds it.

    The cache must also hold the producer's operands. The model of a kernel hides most of its memory
    traffic behind its arithmetic. That holds for caches; measured on kernels of 25 MB and more,
    memory's comes on top: 1 x 1 and depthwise convolutions of 256 x 256 x 48 take 1.2 and 1.4 times
    what the model says.
    """
    device = facts.device
    if stays(device, _in_use(merge, facts)):
        return 0.0
    far = device.all_gb_per_s(device.levels[-1]) * 1e3
    return 2 * bytes_at_hint(merge.consumer, merge.tensor, facts.env) / far


def cache_refusal(merge: Merge, facts: Facts) -> Refusal | None:
    """Return why windows are not reduced in their producer's tile: a cache holds the value.

    Measured on two cores: an inverted bottleneck of 112 x 112 x 144, 8 MB, takes 1.2 times as long
    as one kernel as it does as two; 256 x 256 x 32, 12 MB, takes as long; 256 x 256 x 48, 25 MB,
    takes
    0.75 times as long.
    """
    total = _in_use(merge, facts)
    if not stays(facts.device, total):
        return None
    shared = [m for m in facts.device.levels if m.shared and m.capacity_bytes]
    room = max(m.capacity_bytes or 0 for m in shared) // 2
    name = shared[-1].name
    text = f"{name} holds it, {total >> 10} KiB with its producer's operands"
    return Refusal("cache", total, room, text, f"more than {room >> 10} KiB, or connect it by hand")


def _in_use(merge: Merge, facts: Facts) -> int:
    """Return the bytes of a value and of its producer's operands, without constants."""
    kernel = merge.producer
    read = (t for t in kernel.inputs if t not in kernel.constants)
    value = bytes_at_hint(merge.consumer, merge.tensor, facts.env)
    return value + sum(bytes_at_hint(kernel, t, facts.env) for t in read)


def stays(device: Device, total_bytes: int) -> bool:
    """Return True if some shared cache has room for twice as many bytes."""
    return any(
        m.shared and m.capacity_bytes is not None and total_bytes <= m.capacity_bytes // 2
        for m in device.levels
    )
