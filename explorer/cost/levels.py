"""Memory levels of a device for the cost model: capacities, bandwidths, cycles."""

from __future__ import annotations

from typing import NamedTuple

from explorer.devices.model import Device
from explorer.process.forking import ForkLock

ROOM_SHARE = 0.5  # of a memory's capacity is available for one operand; chosen, unmeasured
REMEMBERED_DEVICES = 4  # a bound on memory, chosen


class Level(NamedTuple):
    """One memory level.

    `room`: bytes that it holds (None: all); `shared`: units share it; bytes per microsecond for one
    unit if all units run and if no other does; `store`: cost of a stored byte in read bytes.
    """

    name: str
    room: float | None
    shared: bool
    bytes_per_us: float
    alone_per_us: float
    store: float

    def per_us(self, idle: float) -> float:
        """Return one unit's bytes per microsecond if `idle` times as many units share it as run."""
        return min(self.alone_per_us, self.bytes_per_us * idle) if idle > 1 else self.bytes_per_us


class Levels(NamedTuple):
    """The levels of a device, nearest first, its cost constants, and microseconds per cycle."""

    levels: tuple[Level, ...]
    costs: tuple[float, ...]
    cycle_us: float
    units: int

    def home(self, bytes_: float, inside: bool) -> int:
        """Return the nearest level that holds so many bytes.

        Data that other units wrote is in a shared level or beyond.
        """
        for n, level in enumerate(self.levels):
            if level.room is not None and bytes_ <= level.room and (inside or level.shared):
                return n
        return len(self.levels) - 1

    def private_home(self, bytes_: float) -> int:
        """Return the level of a unit's cached part of a constant.

        It is the nearest private level that holds so many bytes, else the farthest private one, or
        level 0 if no level is private.
        """
        own = [n for n, level in enumerate(self.levels) if not level.shared]
        return next((n for n in own if bytes_ <= (self.levels[n].room or 0)), max(own, default=0))


_lock = ForkLock()
_recent: list[tuple[Device, Levels]] = []


def levels_of(device: Device) -> Levels:
    """Return the levels of a device, cached for the last few devices."""
    for cached_device, cached_levels in _recent:
        if cached_device is device:
            return cached_levels
    levels = _levels(device)
    with _lock:
        _recent.insert(0, (device, levels))
        del _recent[REMEMBERED_DEVICES:]
    return levels


def _levels(device: Device) -> Levels:
    stores = dict(device.costs.stores)
    levels = [
        Level(
            m.name,
            None if m.capacity_bytes is None else m.capacity_bytes * ROOM_SHARE,
            m.shared,
            device.each_gb_per_s(m) * 1e3,
            max(m.alone_gb_per_s, device.each_gb_per_s(m)) * 1e3,
            stores.get(m.name, 1.0),
        )
        for m in device.levels
    ]
    cycle_us = 1.0 / (device.clock_ghz * 1e3)
    return Levels(tuple(levels), device.costs.values, cycle_us, max(1, device.units))
