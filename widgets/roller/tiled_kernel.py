"""The tile choices of one kernel on a device, one rTile per memory level, with predicted times.

Measured times are included where a tile was timed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from explorer.cost.estimate import tasks
from explorer.devices.model import Device, MemoryLevel
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import MeasuredTile, Tiling, TilingDecision
from explorer.ir.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.kernels.contraction import contraction
from explorer.ir.kernels.regions import propagate
from explorer.measure.compare import Measurement
from explorer.roller.construct.construct import rules_for
from explorer.roller.construct.expression import Expression, heaviest, of_compute
from explorer.roller.construct.levels import LevelRules, Room
from explorer.roller.construct.rtile import RTile, TiledProgram
from explorer.roller.construct.shrink import Waves
from explorer.roller.construct.steps import Construction
from explorer.roller.tile_order import why_first
from widgets.draw.table import time_text
from widgets.model.picture import Times

MOST = 10  # tiles to choose from


@dataclass(frozen=True, slots=True)
class Level:
    """The tile of one memory level: `name` holds it, `source` feeds it in lines of `line_bytes`."""

    name: str
    source: str
    tile: RTile
    rooms: tuple[Room, ...]
    line_bytes: int


@dataclass(frozen=True, slots=True)
class TileChoice:
    """One tile to choose, farthest level first.

    `tiling` is set if this machine can run it; then `measured` may be too. `block` is set for a
    thread block of a GPU. `panels` maps operands in packed columns to their columns per panel.
    """

    label: str
    levels: tuple[Level, ...]
    waves: Waves
    modelled_us: float
    terms: tuple[tuple[str, float], ...]
    tiling: Tiling | None = None
    measured: Measurement | None = None
    note: str = ""
    panels: Mapping[str, int] = field(default_factory=dict)
    block: Tiling | None = None

    @property
    def expression(self) -> Expression:
        """The tiled expression."""
        return self.levels[0].tile.expression

    @property
    def is_copied(self) -> bool:
        """True if levels hold copies of their own rather than parts of the tensor in place."""
        return self.tiling is None

    @property
    def operations(self) -> int:
        """The operations of the whole operator, without the padding of edge tiles."""
        return self.expression.points * self.expression.operations

    def gflops(self, us: float) -> float:
        """Return the speed in GFLOP/s for a time of `us` microseconds."""
        return self.operations / us / 1e3 if us > 0 else 0.0


@dataclass(frozen=True)
class TiledKernel:
    """One kernel on one device with its tile choices.

    `own`: the device is this machine, which was compiled for. `title` is the display name of its
    operator.
    """

    binding: str
    kernel: Kernel
    device: Device
    own: bool
    ops: tuple[str, ...]
    construction: Construction
    choices: tuple[TileChoice, ...]
    rank: int
    refused: tuple[Candidate[Tiling], ...]
    env: ShapeEnv
    sizes: Sizes
    pinned: bool = False
    title: str = ""  # display name of the kernel
    family: str = ""  # of its operator

    @property
    def blocks(self) -> int:
        """The number of choices that are thread blocks; they precede the construction's results."""
        return sum(c.block is not None for c in self.choices)

    @property
    def chosen(self) -> TileChoice | None:
        """The tile that pictures show, None if none fits."""
        return self.choices[self.rank] if self.choices else None


def axis_words(axis: str) -> str:
    """Return the display name of an axis; a fused axis is the product of its parts, `b0·i_2`."""
    return axis.replace("*", "·")


def tile_words(axes: Sequence[str], shape: Sequence[int]) -> str:
    """Return a tile's sizes by axis as text."""
    return " ".join(f"{axis_words(a)}={n}" for a, n in zip(axes, shape, strict=True))


def construction_choices(c: Construction, device: Device) -> tuple[TileChoice, ...]:
    """Return the results of a construction, best first."""
    rules, _ = rules_for(device, c.expression)
    return tuple(_result(c, p, device, rules) for p in c.results[:MOST])


def _result(c: Construction, p: TiledProgram, device: Device, rules: LevelRules) -> TileChoice:
    levels = tuple(
        Level(level.name, level.source, tile, rules.rooms(p.tiles[n:], n), level.transaction_bytes)
        for n, (level, tile) in enumerate(zip(c.levels, p.tiles, strict=False))
    )
    waves = Waves(p.grid, max(1, device.units))
    computing, loading = rules.compute_us(p.tiles[0], 0), rules.memory_us(p.tiles[0], 0)
    terms = (
        ("compute", computing * waves.waves),
        (c.levels[0].source, max(0.0, loading - computing) * waves.waves),
    )
    label = ", ".join(tile_words(c.expression.axes, level.tile.shape) for level in levels)
    return TileChoice(label, levels, waves, sum(us for _, us in terms), terms, note=_note(p))


def _note(p: TiledProgram) -> str:
    if p.shrunk_from:
        was = tile_words(p.tiles[0].expression.axes, p.shrunk_from[0].shape)
        return f"cut finer, so that every core or SM has work: it was {was}"
    return "a border program: the last that fits, not compute bound" if p.border else ""


def candidate_choices(
    kernel: Kernel, decision: TilingDecision, device: Device, sizes: Sizes, times: Times
) -> tuple[TileChoice, ...]:
    """Return the legal candidates of a decision, best first."""
    legal = [c for c in decision.candidates if not c.refused and isinstance(c.value, Tiling)]
    notes = {m.tiling: timed_words(m) for m in decision.measured}
    fastest = min(legal, key=lambda c: c.cost_us, default=None)
    if fastest is not None and not decision.pinned:
        why = why_first(legal[0], fastest, kernel, device, sizes)
        if why:
            notes.setdefault(decision.chosen, f"taken: as good as the fastest, and {why}")
    if decision.efficient is not None:
        notes.setdefault(decision.efficient, "takes less in all: the schedule may run it")
    choices = (_choice(kernel, c, device, sizes, times) for c in legal[:MOST])
    return tuple(replace(c, note=notes.get(c.tiling, "") if c.tiling else "") for c in choices)


def timed_words(m: MeasuredTile) -> str:
    """Describe a timed tiling: its measured time and its rank in the cost model."""
    return f"{time_text(m.measured_us)} timed alone, number {m.rank} by the model"


def _choice(
    kernel: Kernel, c: Candidate[Tiling], device: Device, sizes: Sizes, times: Times
) -> TileChoice:
    tiling = c.value
    main = heaviest(kernel, sizes)
    product = contraction(main)
    levels = levels_of(kernel, main, tiling, device, sizes)
    panels = {}
    if product is not None and (tiling.pack or product.b.tensor in kernel.constants):
        panels = {product.b.tensor: tiling.micro.columns}
    return TileChoice(
        label=c.label,
        levels=levels,
        waves=Waves(tasks(kernel, tiling, sizes), max(1, device.units)),
        modelled_us=c.cost_us,
        terms=c.terms,
        tiling=tiling,
        measured=times.get(tiling),
        panels=panels,
    )


def levels_of(
    kernel: Kernel, main: Compute, tiling: Tiling, device: Device, sizes: Sizes
) -> tuple[Level, ...]:
    """Return a CPU tiling as rTiles of one compute: a task and, if present, its register tile."""
    e = of_compute(kernel, main, sizes)
    ranges = propagate(kernel, dict(tiling.tile)).axes[kernel.computes.index(main)]
    shape = tuple(
        max(1, min(extent, evaluate_dim(ranges[a].size, sizes) if a in ranges else extent))
        for a, extent in zip(e.axes, e.extents, strict=True)
    )
    product = contraction(main)
    feeds, task = _shared_source(device, e), RTile(e, shape)
    if product is None:
        return (_task(device, task, feeds),)
    depth = {a.name for a in product.depth}
    if tiling.depth_block and len(depth) == 1:
        steps = (min(s, tiling.depth_block) if a in depth else s for a, s in zip(e.axes, shape))
        task = RTile(e, tuple(steps))
    inner = dict.fromkeys(e.axes, 1) | {product.column.name: tiling.micro.columns}
    left = tiling.micro.rows
    for axis in reversed(product.rows):
        size = shape[e.position(axis.name)]
        inner[axis.name] = max(1, min(left, size))
        left = -(-left // size)
    outer = _task(device, task, feeds)
    micro, lanes = tiling.micro, device.lanes * e.output.item_bytes
    used = micro.rows * micro.vectors + micro.vectors + 1
    room = Room("vector registers", used, device.registers)
    register = RTile(e, tuple(inner[a] for a in e.axes))
    return outer, Level("registers", outer.name, register, (room,), lanes)


def _task(device: Device, tile: RTile, feeds: MemoryLevel) -> Level:
    """Return the level that holds a task: the nearest one with room for the tile's inputs."""
    memory = _with_room(device.levels, tile.footprint_bytes)
    room = Room(f"bytes of {memory.name}", tile.footprint_bytes, memory.capacity_bytes or 0)
    return Level(memory.name, feeds.name, tile, (room,), feeds.line_bytes)


def _shared_source(device: Device, e: Expression) -> MemoryLevel:
    """Return the nearest level shared by all units with room for all operands."""
    count = sum(a.item_bytes * prod(a.shape) for a in (*e.inputs, e.output))
    shared = tuple(m for m in device.levels if m.shared) or device.levels
    return _with_room(shared, count)


def _with_room(levels: Sequence[MemoryLevel], count: int) -> MemoryLevel:
    return next((m for m in levels if m.capacity_bytes and count <= m.capacity_bytes), levels[-1])
