"""The kernel, device and tile that Roller's pictures show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from explorer.devices.catalogue import device as data_sheet
from explorer.devices.catalogue import device_names
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import BlockDecision, TilingDecision
from explorer.ir.kernel import Kernel
from explorer.ir.program import Binding
from explorer.roller.blocks.candidates import block_candidates
from explorer.roller.construct.construct import construct
from explorer.roller.construct.expression import expression_of
from widgets.draw.svg import Svg
from widgets.draw.table import Table
from widgets.model.on_show import OnShow
from widgets.model.picture import Draw, Drawn, Family, placeholder
from widgets.roller.block_choices import TAKEN, WeighedBlock, block_choices, thread_blocks
from widgets.roller.tiled_kernel import (
    TileChoice,
    TiledKernel,
    candidate_choices,
    construction_choices,
)
from widgets.roller.traffic import order, traffic

SHEETS = ("v100",)  # devices that a saved page includes
R = TypeVar("R")


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
    runs = own and device.kind == "cpu"
    blocks = _blocks(s, name, kernel, device, own=own)
    if isinstance(decision, TilingDecision) and runs:
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
    if device.kind != "gpu":
        return ()
    if own:
        return thread_blocks(s.now, name)
    sizes = {**s.now.compiled.program.env.hints, **dict(s.now.sizes)}

    def weighed_there() -> tuple[WeighedBlock, ...]:
        candidates = block_candidates(kernel, device, sizes)
        return tuple(WeighedBlock(x, on=not n) for n, x in enumerate(candidates))

    return s.house.cached(repr(("blocks", name, device.name)), s.now.sizes, weighed_there)


def device_of(name: str) -> Device:
    """Return this machine, or a data sheet by name; raises NoSuchDevice."""
    from explorer.measure.this_machine.this_cpu import this_cpu

    return this_cpu() if name == "this-cpu" else data_sheet(name)


Tiled = tuple[Binding, Kernel, TilingDecision | BlockDecision]


def _tiled(s: OnShow) -> list[Tiled]:
    program = s.now.compiled.program
    decisions = program.decisions
    return [
        (b, b.expr.kernel, d)
        for b in program.kernel_calls
        if isinstance(b.expr, KernelCall) and (d := decisions.rolled(b.name))
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
