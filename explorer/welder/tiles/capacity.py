"""Refusals of tiles that do not fit: the footprint of the smallest, and the part that fits."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.cost.bind_kernel import bind_kernel, sizes_of
from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Refusal
from explorer.ir.kernel import Kernel
from explorer.ir.shapes.dims import ShapeEnv
from explorer.welder.tiles.reduce_steps import first_steps
from explorer.welder.tiles.sized_tile import SizedTile, size_tile
from explorer.welder.tiles.tile_costs import base_tile, holder


def no_legal_tile(kernel: Kernel, device: Device, env: ShapeEnv) -> Refusal:
    """Return why Roller finds no tiling for a group.

    Its smallest tile holds too much, or no register tile takes its columns.
    """
    bound = bind_kernel(kernel, sizes_of(kernel, env))
    memory, base = holder(device), base_tile(bound, device)
    least = size_tile(bound, device, memory, base, first_steps(bound, memory, base))
    if least.fits:
        return Refusal("tiling", 0, 1, "no tiling of the fused kernel is legal")
    return no_room((least,), device)


def no_room(tiles: Sequence[SizedTile], device: Device) -> Refusal:
    """Return the refusal of tiles of which even the smallest one does not fit.

    It holds too much, or computes more than registers hold.
    """
    memory = holder(device)
    room = memory.capacity or 0
    least = min((s.held_bytes for s in tiles), default=0)
    if tiles and least <= room:
        text = "registers do not hold what the smallest tile computes"
        return Refusal("registers", 1, 0, text, "shorter rows")
    text = f"the smallest tile holds {in_words(least)} and {memory.name} has {in_words(room)}"
    share = room / max(1, least)
    return Refusal("capacity", least, room, text, f"{share:.2g} of the rows would fit")


def in_words(count: int) -> str:
    """Return bytes with a binary unit."""
    if count < 1 << 10:
        return f"{count} B"
    return f"{count / 1024:.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"
