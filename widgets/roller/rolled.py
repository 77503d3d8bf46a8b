"""What Roller made of one kernel for a device: the tiles to choose from, each as one rTile a memory
level, with what the model and the clock say of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from explorer.cost.estimate import tasks
from explorer.devices.model import Device, MemoryLevel
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Block, MeasuredTile, Tiling, TilingDecision
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.patterns.contraction import contraction
from explorer.ir.patterns.regions import propagate
from explorer.ir.shapes.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.measure.compare import Measurement
from explorer.roller.construct.construct import rules_for
from explorer.roller.construct.expression import Expression, heaviest, of_compute
from explorer.roller.construct.levels import LevelRules, Room
from explorer.roller.construct.rtile import RTile, TiledProgram
from explorer.roller.construct.scale_out import Waves
from explorer.roller.construct.steps import Construction
from explorer.roller.tiles.order import why_first
from widgets.draw.table import time_text
from widgets.model.on_show import Times

MOST = 10  # tiles to choose from


@dataclass(frozen=True, slots=True)
class Level:
    """The tile of one memory level: `name` holds it, `source` feeds it, `line_bytes` at once."""

    name: str
    source: str
    tile: RTile
    rooms: tuple[Room, ...]
    line_bytes: int


@dataclass(frozen=True, slots=True)
class Choice:
    """One tile to choose, farthest level first. `tiling` is there where this machine can run it;
    then `measured` may be as well. `block` is there where it is a thread block of a GPU. `panels`:
    operands that lie in packed columns, so many a panel.
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
    block: Block | None = None

    @property
    def expression(self) -> Expression:
        """What is tiled."""
        return self.levels[0].tile.expression

    @property
    def copied(self) -> bool:
        """Whether a level holds a copy of its own, and not a part of the tensor as it lies."""
        return self.tiling is None

    @property
    def operations(self) -> int:
        """Of the whole operator, edge tiles as far as they reach."""
        return self.expression.points * self.expression.operations

    def gflops(self, us: float) -> float:
        """The speed where it takes that long."""
        return self.operations / us / 1e3 if us > 0 else 0.0


@dataclass(frozen=True)
class Rolled:
    """One kernel on one device; `own`: it is this machine, which was compiled for. `title` is the
    display name of its operator.
    """

    binding: str
    kernel: Kernel
    device: Device
    own: bool
    ops: tuple[str, ...]
    construction: Construction
    choices: tuple[Choice, ...]
    rank: int
    refused: tuple[Candidate[Tiling | Block], ...]
    env: ShapeEnv
    sizes: Sizes
    pinned: bool = False
    title: str = ""  # what a reader calls the kernel
    family: str = ""  # of its operator

    @property
    def blocks(self) -> int:
        """How many of the choices, the first ones, are thread blocks; the construction's results
        stand behind them.
        """
        return sum(c.block is not None for c in self.choices)

    @property
    def chosen(self) -> Choice | None:
        """The tile that pictures show; None where nothing fits."""
        return self.choices[self.rank] if self.choices else None


def axis_words(axis: str) -> str:
    """An axis for readers: one that several were fused into is their product, `b0·i_2`."""
    return axis.replace("*", "·")


def tile_words(axes: Sequence[str], shape: Sequence[int]) -> str:
    """A tile by its sizes."""
    return " ".join(f"{axis_words(a)}={n}" for a, n in zip(axes, shape, strict=True))


def constructed(c: Construction, device: Device) -> tuple[Choice, ...]:
    """The results of a construction, best first."""
    rules, _ = rules_for(device, c.expression)
    return tuple(_result(c, p, device, rules) for p in c.results[:MOST])


def _result(c: Construction, p: TiledProgram, device: Device, rules: LevelRules) -> Choice:
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
    return Choice(label, levels, waves, sum(us for _, us in terms), terms, note=_note(p))


def _note(p: TiledProgram) -> str:
    if p.shrunk_from:
        was = tile_words(p.tiles[0].expression.axes, p.shrunk_from[0].shape)
        return f"cut finer, so that every core or SM has work: it was {was}"
    return "a border program: the last that fits, not compute bound" if p.border else ""


def weighed(
    kernel: Kernel, decision: TilingDecision, device: Device, sizes: Sizes, times: Times
) -> tuple[Choice, ...]:
    """The legal candidates of a decision, best first."""
    legal = [c for c in decision.candidates if not c.refused and isinstance(c.value, Tiling)]
    notes = {m.tiling: timed_words(m) for m in decision.measured}
    fastest = min(legal, key=lambda c: c.cost_us, default=None)
    if fastest is not None and not decision.pinned:
        why = why_first(legal[0], fastest, kernel, device, sizes)
        if why:
            notes.setdefault(decision.chosen, f"taken: as good as the fastest, and {why}")
    if decision.efficient is not None:
        notes.setdefault(decision.efficient, "takes less in all: the schedule may run it")
    found = (_choice(kernel, c, device, sizes, times) for c in legal[:MOST])
    return tuple(replace(c, note=notes.get(c.tiling, "") if c.tiling else "") for c in found)


def timed_words(m: MeasuredTile) -> str:
    """What a tiling took where Roller timed it, and what the model had thought of it."""
    return f"{time_text(m.measured_us)} timed alone, number {m.rank} by the model"


def _choice(
    kernel: Kernel, c: Candidate[Tiling], device: Device, sizes: Sizes, times: Times
) -> Choice:
    tiling = c.value
    main = heaviest(kernel, sizes)
    found = contraction(main)
    levels = levels_of(kernel, main, tiling, device, sizes)
    panels = {}
    if found is not None and (tiling.pack or found.b.tensor in kernel.constants):
        panels = {found.b.tensor: tiling.micro.columns}
    return Choice(
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
    """A tiling of this machine as rTiles of one compute: a task, and the register tile where it has
    one.
    """
    e = of_compute(kernel, main, sizes)
    ranges = propagate(kernel, dict(tiling.tile)).axes[kernel.computes.index(main)]
    shape = tuple(
        max(1, min(extent, evaluate_dim(ranges[a].size, sizes) if a in ranges else extent))
        for a, extent in zip(e.axes, e.extents, strict=True)
    )
    found = contraction(main)
    feeds, task = _feeds(device, e), RTile(e, shape)
    if found is None:
        return (_task(device, task, feeds),)
    depth = {a.name for a in found.depth}
    if tiling.depth_block and len(depth) == 1:
        steps = (min(s, tiling.depth_block) if a in depth else s for a, s in zip(e.axes, shape))
        task = RTile(e, tuple(steps))
    inner = dict.fromkeys(e.axes, 1) | {found.column.name: tiling.micro.columns}
    left = tiling.micro.rows
    for axis in reversed(found.rows):
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
    """In the nearest level with room for the tile's inputs."""
    held = _with_room(device.levels, tile.footprint_bytes)
    room = Room(f"bytes of {held.name}", tile.footprint_bytes, held.capacity_bytes or 0)
    return Level(held.name, feeds.name, tile, (room,), feeds.line_bytes)


def _feeds(device: Device, e: Expression) -> MemoryLevel:
    """The nearest level that the units share with room for all operands."""
    count = sum(a.item_bytes * prod(a.shape) for a in (*e.inputs, e.output))
    shared = tuple(m for m in device.levels if m.shared) or device.levels
    return _with_room(shared, count)


def _with_room(levels: Sequence[MemoryLevel], count: int) -> MemoryLevel:
    return next((m for m in levels if m.capacity_bytes and count <= m.capacity_bytes), levels[-1])
