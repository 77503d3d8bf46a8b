"""A device as the model reads it again and again: what a level holds, how fast it is, cycles."""

from __future__ import annotations

from typing import NamedTuple

from explorer.devices.model import Device
from explorer.forking import ForkLock

ROOM_SHARE = 0.5  # of a memory's capacity may be one operand; chosen, no measurement kept
REMEMBERED_DEVICES = 4  # a bound on memory, chosen


class Level(NamedTuple):
    """One memory: bytes that it has room for (None: all), whether units share it, bytes a
    microsecond for one unit while all run and while no other does, and what a byte stored costs in
    bytes read.
    """

    name: str
    room: float | None
    shared: bool
    bytes_per_us: float
    alone_per_us: float
    store: float

    def per_us(self, idle: float) -> float:
        """Bytes a microsecond for one unit where `idle` times as many share it as run."""
        return min(self.alone_per_us, self.bytes_per_us * idle) if idle > 1 else self.bytes_per_us


class Levels(NamedTuple):
    """The levels of a device, nearest first, the cycles of its costs, microseconds of a cycle."""

    levels: tuple[Level, ...]
    costs: tuple[float, ...]
    cycle_us: float
    units: int

    def home(self, bytes_: float, inside: bool) -> int:
        """The nearest level that holds this much; what other units wrote is at least one shared
        level away.
        """
        for n, level in enumerate(self.levels):
            if level.room is not None and bytes_ <= level.room and (inside or level.shared):
                return n
        return len(self.levels) - 1

    def kept(self, bytes_: float) -> int:
        """Where a unit's own part of a constant is while nothing has driven it out: the nearest
        level of the unit's that holds this much, else the farthest of them; the nearest of all
        where no level is a unit's own.
        """
        own = [n for n, level in enumerate(self.levels) if not level.shared]
        return next((n for n in own if bytes_ <= (self.levels[n].room or 0)), max(own, default=0))


_lock = ForkLock()
_known: list[tuple[Device, Levels]] = []


def levels_of(device: Device) -> Levels:
    """The levels of a device; the last few devices are remembered."""
    for one, found in _known:
        if one is device:
            return found
    made = _levels(device)
    with _lock:
        _known.insert(0, (device, made))
        del _known[REMEMBERED_DEVICES:]
    return made


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
