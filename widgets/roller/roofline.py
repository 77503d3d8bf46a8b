"""The roofline of one kernel on one device: a roof per memory level, the peak, and the tiles.

Each tile choice is a point, predicted and measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log

from explorer.devices.model import Device
from widgets.draw.table import time_text
from widgets.roller.tiled_kernel import TileChoice, TiledKernel

COMPUTE = "compute"


@dataclass(frozen=True, slots=True)
class Roof:
    """The bandwidth of a memory level for `units` units together, in GB/s."""

    level: str
    units: int
    gb_per_s: float


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """One tile on the roofline.

    `intensity` is operations per byte from the level that bounds it lowest, and `bound` is the
    speed that this level allows. Speeds are in GFLOP/s; `measured` is 0 without a measurement.
    """

    tile: str
    level: str
    intensity: float
    bound: float
    modelled: float
    measured: float
    modelled_us: float
    measured_us: float
    n: int

    @property
    def error(self) -> float:
        """Predicted over measured time, 0 without a measurement."""
        return self.modelled_us / self.measured_us if self.measured_us else 0.0


@dataclass(frozen=True, slots=True)
class RooflineRows:
    """Roofs of one unit and of all, peaks in GFLOP/s by units, and the points by rank."""

    kernel: str
    device: str
    own: bool
    roofs: tuple[Roof, ...]
    peaks: tuple[tuple[int, float], ...]
    points: tuple[RooflinePoint, ...]
    rank: int
    ops: tuple[str, ...]

    @property
    def levels(self) -> tuple[str, ...]:
        """The memory levels that have a roof, nearest first."""
        return tuple(dict.fromkeys(r.level for r in self.roofs))

    @property
    def all_units(self) -> tuple[int, float]:
        """The number of units, and their peak in GFLOP/s."""
        return max(self.peaks, default=(1, 0.0))

    def binds(self, p: RooflinePoint) -> str:
        """Return the level that bounds a tile, or "compute" where no level is below the peak."""
        return COMPUTE if p.bound >= self.all_units[1] > 0 else p.level

    @property
    def errors(self) -> tuple[float, ...]:
        """Predicted over measured time of each measured tile."""
        return tuple(p.error for p in self.points if p.error > 0)

    @property
    def error(self) -> float:
        """The geometric mean of the errors, 0 if there is none."""
        errors = self.errors
        return exp(sum(map(log, errors)) / len(errors)) if errors else 0.0


def data(rolled: TiledKernel) -> RooflineRows:
    """Return the roofline of one kernel."""
    device = rolled.device
    counts = tuple(dict.fromkeys((1, max(1, device.units))))
    peak = max((_peak(c, device) for c in rolled.choices), default=device.reached_gflops_per_unit)
    if device.kind == "gpu":
        counts = counts[-1:]
    return RooflineRows(
        rolled.title,
        device.name,
        rolled.own,
        tuple(roof for units in counts for roof in roofs(device, units)),
        tuple((units, peak * units) for units in counts),
        tuple(_point(c, device) for c in rolled.choices),
        rolled.rank,
        rolled.ops,
    )


def _peak(c: TileChoice, device: Device) -> float:
    """Return the peak GFLOP/s of a unit with a tile, on matrix units if the block uses them."""
    matrix = c.block is not None and bool(c.block.matrix)
    return device.unit_matrix_gflops if matrix else device.reached_gflops_per_unit


def roofs(device: Device, units: int) -> Iterator[Roof]:
    """Yield the bandwidth of every level for `units` units that load at the same time.

    If all units load it is the shared bandwidth, else a multiple of that of one unit.
    """
    for m in device.levels:
        every = units == device.units
        yield Roof(m.name, units, device.all_gb_per_s(m) if every else m.alone_gb_per_s * units)


def _point(c: TileChoice, device: Device) -> RooflinePoint:
    units = max(1, device.units)
    speed = {r.level: r.gb_per_s for r in roofs(device, units)}
    peak = _peak(c, device) * units
    nearest = device.levels[0].name if device.levels else ""
    bounds = []
    for level in c.levels:
        source = level.source if level.source in speed else nearest
        most = speed.get(source, peak) * level.tile.intensity
        bounds.append((most, source, level.tile.intensity))
    bound, source, intensity = min(bounds)  # the lowest roof at this tile
    us = c.measured.median_us if c.measured else 0.0
    return RooflinePoint(
        c.label,
        source,
        intensity,
        min(peak, bound),
        c.gflops(c.modelled_us),
        c.gflops(us),
        c.modelled_us,
        us,
        c.measured.n if c.measured else 0,
    )


def point_words(p: RooflinePoint, n: int) -> str:
    """Describe the tile of a rank in a sentence."""
    measured = f", measured {time_text(p.measured_us)}" if p.measured_us else ""
    return (
        f"{n + 1}: {p.tile}; {p.intensity:.3g} operations a byte from {p.level}; predicted "
        f"{time_text(p.modelled_us)}{measured}"
    )
