"""The fastest tile of a group, by the model, whose reuse tile of a value fits a given memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from explorer.cost.bind_kernel import bind_kernel, extents, sizes_of
from explorer.cost.estimate import kernel_terms
from explorer.cost.footprint import inner_box
from explorer.devices.model import Device, LevelMemory
from explorer.devices.target import target_of
from explorer.ir.decisions.candidate import Refusal
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.regions import propagate
from explorer.ir.types import ITEM_BYTES
from explorer.welder.tiles.levels import REGISTER, memories
from explorer.welder.tiles.plan import plan_group
from explorer.welder.tiles.tile_costs import best_tile
from explorer.welder.tiles.tile_graph import links

MOST_TILES = 16  # evaluated, up to a millisecond each: a bound on search time, chosen

Wanted = Mapping[str, str]  # tensors of a kernel, and the memory through which each passes


@dataclass(frozen=True, slots=True)
class TilingChoice:
    """A tiling and its modelled time; `why` is the refusal if every tiling lacks room."""

    tiling: Tiling
    predicted_us: float
    why: Refusal | None = None


def tile_at(
    kernel: Kernel,
    device: Device,
    env: ShapeEnv,
    wanted: Wanted,
    start_tilings: Sequence[Tiling] = (),
) -> TilingChoice:
    """Return the fastest tiling under which each wanted tensor fits its memory.

    `start_tilings` are tilings to begin at. A tensor that is not in the kernel, or is used at its
    own point alone, passes through registers, whatever memory it may use.
    """
    bound = bind_kernel(kernel, sizes_of(kernel, env))
    near = {link.tensor: link.near for link in links(bound)}
    internal = {t: level for t, level in wanted.items() if t in near}
    for tensor, level in internal.items():
        if level == REGISTER and near[tensor] > 0:
            return TilingChoice(Tiling(), float("inf"), _not_at_its_point(device))
    rooms = {t: _room(device, level) for t, level in internal.items() if near[t] > 0}
    starts = [_with_axes_of(bound, t) for t in start_tilings] or [_best(bound, device)]
    choice = _descend(bound, device, rooms, starts)
    if choice is not None:
        return choice
    least = replace(starts[0], tile=tuple((a, 1) for a in extents(bound)))
    if _too_large(bound, least, rooms) is None:
        return _choice(bound, device, least)
    tensor, found_bytes = _too_large(bound, least, rooms) or ("", 0)
    return TilingChoice(
        least, float("inf"), _no_room(found_bytes, internal[tensor], rooms[tensor], device)
    )


def fits(kernel: Kernel, tiling: Tiling, device: Device, env: ShapeEnv, wanted: Wanted) -> bool:
    """Return True if each wanted tensor of a kernel fits its memory under a tiling."""
    bound = bind_kernel(kernel, sizes_of(kernel, env))
    near = {link.tensor: link.near for link in links(bound)}
    if any(near.get(t, 0) > 0 for t, level in wanted.items() if level == REGISTER):
        return False
    rooms = {t: _room(device, level) for t, level in wanted.items() if near.get(t, 0) > 0}
    return _too_large(bound, tiling, rooms) is None


def reuse_bytes(kernel: Kernel, tiling: Tiling, tensor: str) -> int:
    """Return the bytes of the part of an internal tensor that one task passes on."""
    regions = propagate(kernel, dict(tiling.tile))
    return prod(inner_box(kernel, regions, tensor)) * ITEM_BYTES[kernel.dtype(tensor)]


def _descend(
    kernel: Kernel, device: Device, rooms: Mapping[str, int], starts: Sequence[Tiling]
) -> TilingChoice | None:
    """Return the best of the starting points and of their neighbours, while one is better."""
    seen: dict[tuple[tuple[str, int], ...], TilingChoice] = {}
    todo = [s for start in starts for s in _shrunk(kernel, start, rooms)]
    best: TilingChoice | None = None
    while todo and len(seen) < MOST_TILES:
        tiling = todo.pop(0)
        if tiling.tile in seen or _too_large(kernel, tiling, rooms) is not None:
            continue
        choice = seen[tiling.tile] = _choice(kernel, device, tiling)
        if best is None or choice.predicted_us < best.predicted_us:
            best = choice
            todo += _neighbours(kernel, tiling)
    return best


def _choice(kernel: Kernel, device: Device, tiling: Tiling) -> TilingChoice:
    if not target_of(device).refines_tiles:
        return TilingChoice(tiling, plan_group(kernel, device, tile=tiling).predicted_us)
    return TilingChoice(tiling, sum(us for _, us in kernel_terms(kernel, tiling, device, {})))


def _shrunk(kernel: Kernel, tiling: Tiling, rooms: Mapping[str, int]) -> Iterator[Tiling]:
    """Yield the tiling, halved along the axis that helps most, until it fits."""
    while (large := _too_large(kernel, tiling, rooms)) is not None:
        sizes = {**extents(kernel), **dict(tiling.tile)}
        cuts = [_with(tiling, a, -(-n // 2)) for a, n in sizes.items() if n > 1]
        if not cuts:
            return
        tiling = min(cuts, key=lambda t: reuse_bytes(kernel, t, large[0]))
    yield tiling


def _neighbours(kernel: Kernel, tiling: Tiling) -> Iterator[Tiling]:
    for axis, extent in extents(kernel).items():
        size = min(extent, tiling.size(axis) or extent)
        for other in (-(-size // 2), min(extent, 2 * size)):
            if other != size:
                yield _with(tiling, axis, other)


def _with(tiling: Tiling, axis: str, size: int) -> Tiling:
    return replace(tiling, tile=tuple(sorted((dict(tiling.tile) | {axis: size}).items())))


def _with_axes_of(kernel: Kernel, tiling: Tiling) -> Tiling:
    """Return the tiling with the axes that the kernel's output has."""
    extents_by_axis = extents(kernel)
    tile = tuple((a, min(n, extents_by_axis[a])) for a, n in tiling.tile if a in extents_by_axis)
    return replace(tiling, tile=tuple(sorted(tile)))


def _best(kernel: Kernel, device: Device) -> Tiling:
    return Tiling(best_tile(kernel, device).tile)


def _too_large(kernel: Kernel, tiling: Tiling, rooms: Mapping[str, int]) -> tuple[str, int] | None:
    """Return the first tensor that does not fit, with its bytes."""
    if not rooms:
        return None
    regions = propagate(kernel, dict(tiling.tile))
    for tensor, room in rooms.items():
        tile_bytes = prod(inner_box(kernel, regions, tensor)) * ITEM_BYTES[kernel.dtype(tensor)]
        if tile_bytes > room:
            return tensor, tile_bytes
    return None


def _memory(device: Device, level: str) -> LevelMemory:
    return next(m for m in memories(device) if m.name == level)


def _room(device: Device, level: str) -> int:
    """Return the bytes of a memory that one unit has."""
    memory = _memory(device, level)
    if memory.capacity is None:
        return 1 << 62
    return memory.capacity // (device.units if memory.shared else 1)


def _not_at_its_point(device: Device) -> Refusal:
    nearest = memories(device)[1].name
    text = "its reader loads other elements than the one at its own index"
    return Refusal("register", 1, 0, text, f"connect it at {nearest}")


def _no_room(tile_bytes: int, level: str, room: int, device: Device) -> Refusal:
    """Return the refusal of a reuse tile that no tiling makes small enough.

    It names the nearest memory that would hold it.
    """
    text = f"its least reuse tile takes {tile_bytes:,} bytes, {level} has {room:,} for a unit"
    larger = (m.name for m in memories(device) if tile_bytes <= _room(device, m.name))
    fitting = next((n for n in larger if n != REGISTER), "")
    return Refusal(
        "capacity", tile_bytes, room, text, f"connect it at {fitting}" if fitting else ""
    )
