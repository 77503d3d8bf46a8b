"""The kernel, device and tile that Roller's pictures show, with the thread blocks to choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from explorer.cost.thread_blocks import ThreadBlocks
from explorer.devices.catalogue import device as data_sheet
from explorer.devices.catalogue import device_names
from explorer.devices.model import Device
from explorer.devices.target import target_of
from explorer.errors import BadOption
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling, TilingDecision
from explorer.ir.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.kernels.regions import propagate
from explorer.ir.program import Binding
from explorer.roller.blocks.candidates import block_candidates, grid_of
from explorer.roller.blocks.thread_block import bound_normal
from explorer.roller.construct.construct import construct
from explorer.roller.construct.expression import expression_of, heaviest, of_compute
from explorer.roller.construct.levels import Room
from explorer.roller.construct.rtile import RTile, whole_tile
from explorer.roller.construct.shrink import Waves
from explorer.tile.gpu.rewrites import unpadded
from explorer.tile.gpu.stage import is_staged
from explorer.views.roller import WeighedBlock, thread_blocks
from widgets.draw.svg import Svg
from widgets.draw.table import Table
from widgets.model.picture import Draw, Drawn, Family, OnShow, placeholder
from widgets.roller.tiled_kernel import (
    Level,
    TileChoice,
    TiledKernel,
    candidate_choices,
    construction_choices,
)

SHEETS = ("v100",)  # devices that a saved page includes
R = TypeVar("R")
MOST_BLOCKS = 6  # thread blocks to choose from, besides those of the wall
TAKEN = "taken by the wall, which also counts the memory that blocks leave beside them"


def tiled_kernel(s: OnShow, op: str) -> TiledKernel | None:
    """Return the kernel that computes a source operator, else the one with the most work.

    It is tiled for the device of the view. Return None if Roller has tiled nothing. Raises
    BadOption for an unknown device or tile.
    """
    call = _call(s, op)
    if call is None:
        return None
    binding, kernel, decision = call
    sizes, view = dict(s.now.sizes), s.view
    sizes = {**s.now.compiled.program.env.hints, **sizes}
    own = view.device in ("", s.now.compiled.device.name)
    device: Device = s.now.compiled.device if own else device_of(view.device)
    name = binding.name
    key = ("construction", name, device.name)
    c = s.house.cached(repr(key), s.now.sizes, lambda: construct(kernel, device, sizes))
    runs = own and target_of(device).is_emitted
    blocks = _blocks(s, name, kernel, device, own=own)
    if own and not target_of(device).uses_thread_blocks:
        choices = candidate_choices(kernel, decision, device, sizes, s.times(name))
        first = next((n for n, x in enumerate(choices) if x.tiling == decision.chosen), 0)
    else:
        choices = (*block_choices(kernel, blocks, device, sizes), *construction_choices(c, device))
        first = next((n for n, x in enumerate(choices) if x.note == TAKEN), 0)
    rank = view.rank if view.rank >= 0 else first
    if rank >= max(1, len(choices)):
        raise BadOption(
            f"{name} has no tile number {rank + 1}: it has {len(choices)} tiles to choose from"
        )
    return TiledKernel(
        name,
        kernel,
        device,
        runs,
        tuple(sorted(binding.origin)),
        c,
        choices,
        rank,
        tuple(x for x in decision.candidates if x.refused),
        s.now.compiled.program.env,
        sizes,
        decision.pinned,
        s.house.label(name, binding.origin),
        next((c.family for c in s.house.calls if c.name == name), ""),
    )


def _blocks(
    s: OnShow, name: str, kernel: Kernel, device: Device, *, own: bool
) -> tuple[WeighedBlock, ...]:
    """Return the thread blocks of a kernel on a GPU, none on a CPU.

    They are those of the wall for the device compiled for, else the candidates for that device.
    """
    if not target_of(device).uses_thread_blocks:
        return ()
    if own:
        return thread_blocks(s.now.compiled, name, dict(s.now.sizes))
    sizes = {**s.now.compiled.program.env.hints, **dict(s.now.sizes)}

    def weighed_there() -> tuple[WeighedBlock, ...]:
        candidates = block_candidates(kernel, device, sizes)
        return tuple(WeighedBlock(x, on=not n) for n, x in enumerate(candidates))

    return s.house.cached(repr(("blocks", name, device.name)), s.now.sizes, weighed_there)


def device_of(name: str) -> Device:
    """Return this machine, or a data sheet by name; raises NoSuchDevice."""
    from explorer.measure.this_cpu import this_cpu

    return this_cpu() if name == "this-cpu" else data_sheet(name)


Tiled = tuple[Binding, Kernel, TilingDecision]


def _tiled(s: OnShow) -> list[Tiled]:
    program = s.now.compiled.program
    decisions = program.decisions
    return [
        (b, b.expr.kernel, d)
        for b in program.kernel_calls
        if isinstance(b.expr, KernelCall) and (d := decisions.tiling(b.name))
    ]


def _call(s: OnShow, op: str) -> Tiled | None:
    """Return the tiled kernel of an operator, else the one with the most work."""
    tiled = _tiled(s)
    mine = next((t for t in tiled if op and op in t[0].origin), None)
    if mine is not None or not tiled:
        return mine
    heaviest = heaviest_calls(s, 1)
    return next(t for t in tiled if t[0].name in heaviest)


def heaviest_calls(s: OnShow, count: int) -> tuple[str, ...]:
    """Return the names of the tiled calls with the most operations."""
    sizes = {**s.now.compiled.program.env.hints, **dict(s.now.sizes)}

    def ranked() -> tuple[str, ...]:
        work = {}
        for binding, kernel, _ in _tiled(s):
            e = expression_of(kernel, sizes)
            work[binding.name] = e.points * e.operations
        return tuple(sorted(work, key=lambda name: -work[name]))

    return s.house.cached("heaviest", s.now.sizes, ranked)[:count]


def _controls(s: OnShow, op: str) -> Mapping[str, Any]:
    """Return the choices of the pictures, devices and tiles, with their current values."""
    rows = tiled_kernel(s, op)
    if rows is None:
        return {}
    names = dict.fromkeys(("this-cpu", rows.device.name, *device_names()))
    return {
        "devices": list(names),
        "device": rows.device.name,
        "tiles": [_tile_words(c, rows) for c in rows.choices],
        "rank": rows.rank,
        "play": "rank",
        "order": order(traffic(rows.choices)),
    }


def _tile_words(c: TileChoice, rows: TiledKernel) -> str:
    """Return a tile's label; among thread blocks, one that was only constructed says so."""
    return f"{c.label}, as constructed" if rows.blocks and c.block is None else c.label


def _about(s: OnShow, op: str) -> tuple[str, ...]:
    shown_kernel = tiled_kernel(s, op)
    return shown_kernel.ops if shown_kernel else ()


TILES = Family("tiles", _controls, _about, heaviest_calls, SHEETS)


def of_tile(
    data: Callable[[TiledKernel], R], figure: Callable[[R], Svg] | None, table: Callable[[R], Table]
) -> Draw:
    """Return the draw function of a picture about a tiled kernel, a chart without `figure`."""

    def draw(s: OnShow, op: str) -> Drawn:
        shown_kernel = tiled_kernel(s, op)
        if shown_kernel is None:
            return placeholder("Roller has tiled nothing.")
        rows = data(shown_kernel)
        return rows, figure(rows) if figure else None, table(rows)

    return draw


def block_choices(
    kernel: Kernel, blocks: Sequence[WeighedBlock], device: Device, sizes: Sizes
) -> tuple[TileChoice, ...]:
    """Return the first blocks, and those that the wall uses."""
    bound = bound_normal(kernel, sizes)
    shown = [w for n, w in enumerate(blocks) if n < MOST_BLOCKS or w.on]
    choices = (_block_choice(bound, w.candidate, device, w.on) for w in shown)
    return tuple(c for c in choices if c is not None)


def _block_choice(
    bound: Kernel, c: Candidate[Tiling], device: Device, taken: bool
) -> TileChoice | None:
    grid = grid_of(bound, c.value, device)
    if grid is None:
        return None
    main = heaviest(bound, {})
    beside, _ = grid.beside(device, grid.grid, grid.resident(device))
    return TileChoice(
        label=c.label,
        levels=_levels(bound, main, c.value, grid, device),
        waves=Waves(grid.grid, max(1, device.units), beside),
        modelled_us=c.cost_us,
        terms=c.terms,
        note=TAKEN if taken else "",
        block=c.value,
    )


def _levels(
    bound: Kernel, main: Compute, block: Tiling, grid: ThreadBlocks, device: Device
) -> tuple[Level, ...]:
    """Return the tile of a block, and the tile of one of its threads."""
    e, near = of_compute(bound, main, {}), next(m for m in device.levels if m.shared)
    ranges = propagate(bound, dict(block.tile)).axes[bound.computes.index(main)]
    at_once, each = dict(block.shared), dict(block.register)
    shape = tuple(
        max(1, min(n, at_once.get(a, evaluate_dim(ranges[a].size, {}) if a in ranges else n)))
        for a, n in zip(e.axes, e.extents, strict=True)
    )
    inner = tuple(min(n, each.get(a, 1)) for a, n in zip(e.axes, shape, strict=True))
    shared = is_staged(unpadded(bound, block, ShapeEnv(), device))
    home = "shared memory" if shared else "a thread block"
    rooms = (
        Room("shared bytes of a block", grid.shared_bytes, device.block_shared_bytes),
        Room("registers of a block", grid.registers, device.unit_registers),
        Room("threads of a block", grid.threads, device.block_threads),
    )
    mine = RTile(e, inner)
    room = Room("elements of a thread", mine.points, device.thread_registers)
    line = device.banks * device.bank_bytes if shared else near.line_bytes
    return (
        Level(home, near.name, RTile(e, shape), rooms, near.line_bytes),
        Level("registers", home if shared else near.name, mine, (room,), line),
    )


@dataclass(frozen=True, slots=True)
class Bar:
    """The bytes moved with one output tile; `ranks` are the choices that have that tile."""

    tile: str
    moved_bytes: int
    ranks: tuple[int, ...]


def traffic(choices: Sequence[TileChoice]) -> tuple[Bar, ...]:
    """Return the tiles by the bytes that they move, the most first, smaller ones before larger."""
    ranks_by_tile: dict[tuple[int, str, int], list[int]] = {}
    for rank, choice in enumerate(choices):
        tile = choice.levels[0].tile
        moved = tile.traffic_bytes * whole_tile(tile.expression).count(tile)
        size = "×".join(str(n) for n in tile.output_tile if n > 1) or "1"
        ranks_by_tile.setdefault((-moved, size, tile.points), []).append(rank)
    order = sorted(ranks_by_tile, key=lambda key: (key[0], key[2], key[1]))
    return tuple(Bar(key[1], -key[0], tuple(ranks_by_tile[key])) for key in order)


def order(bars: Sequence[Bar]) -> list[int]:
    """Return the choices along the staircase."""
    return [rank for bar in bars for rank in bar.ranks]


def shape_text(shape: Sequence[int]) -> str:
    """Return extents as text, joined by ×."""
    return "×".join(map(str, shape)) or "1"
