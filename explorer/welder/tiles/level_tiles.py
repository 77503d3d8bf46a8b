"""The tile of a group that hands a value over in a given memory: the quickest by the model whose
reuse tile has room there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from explorer.cost.bound import bind_kernel, extents, sizes_of
from explorer.cost.estimate import kernel_terms
from explorer.cost.footprint import inner_box
from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Refusal
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.patterns.regions import propagate
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.types import ITEM_BYTES
from explorer.welder.tiles.levels import REGISTER, Memory, memories
from explorer.welder.tiles.plan import plan_group
from explorer.welder.tiles.tile_costs import best_tile
from explorer.welder.tiles.tile_graph import links

MOST_TILES = 16  # that are looked at, a millisecond or less each: a bound on search time, chosen

Wanted = Mapping[str, str]  # tensors of a kernel, and the memory in which each is handed over


@dataclass(frozen=True, slots=True)
class Choice:
    """A tiling and its modelled time; `why` says what has no room, where that is so for every
    tiling.
    """

    tiling: Tiling
    predicted_us: float
    why: Refusal | None = None


def tile_at(
    kernel: Kernel, device: Device, env: ShapeEnv, wanted: Wanted, known: Sequence[Tiling] = ()
) -> Choice:
    """The quickest tiling under which each wanted tensor has room in its memory.

    `known` are tilings to begin at. A tensor that is not in the kernel, or is used at its own point
    alone, is handed over in registers, whatever memory it may use.
    """
    bound = bind_kernel(kernel, sizes_of(kernel, env))
    near = {link.tensor: link.near for link in links(bound)}
    kept = {t: level for t, level in wanted.items() if t in near}
    for tensor, level in kept.items():
        if level == REGISTER and near[tensor] > 0:
            return Choice(Tiling(), float("inf"), _not_at_its_point(device))
    rooms = {t: _room(device, level) for t, level in kept.items() if near[t] > 0}
    starts = [_with_axes_of(bound, t) for t in known] or [_best(bound, device)]
    found = _descended(bound, device, rooms, starts)
    if found is not None:
        return found
    least = replace(starts[0], tile=tuple((a, 1) for a in extents(bound)))
    if _too_large(bound, least, rooms) is None:
        return _choice(bound, device, least)
    tensor, found_bytes = _too_large(bound, least, rooms) or ("", 0)
    return Choice(least, float("inf"), _no_room(found_bytes, kept[tensor], rooms[tensor], device))


def fits(kernel: Kernel, tiling: Tiling, device: Device, env: ShapeEnv, wanted: Wanted) -> bool:
    """Whether each wanted tensor of a kernel has room in its memory under a tiling."""
    bound = bind_kernel(kernel, sizes_of(kernel, env))
    near = {link.tensor: link.near for link in links(bound)}
    if any(near.get(t, 0) > 0 for t, level in wanted.items() if level == REGISTER):
        return False
    rooms = {t: _room(device, level) for t, level in wanted.items() if near.get(t, 0) > 0}
    return _too_large(bound, tiling, rooms) is None


def reuse_bytes(kernel: Kernel, tiling: Tiling, tensor: str) -> int:
    """Bytes of the part of a tensor made inside that one task hands over."""
    regions = propagate(kernel, dict(tiling.tile))
    return prod(inner_box(kernel, regions, tensor)) * ITEM_BYTES[kernel.dtype(tensor)]


def _descended(
    kernel: Kernel, device: Device, rooms: Mapping[str, int], starts: Sequence[Tiling]
) -> Choice | None:
    """The best of the starting points and of their neighbours, for as long as one is better."""
    seen: dict[tuple[tuple[str, int], ...], Choice] = {}
    todo = [s for start in starts for s in _shrunk(kernel, start, rooms)]
    best: Choice | None = None
    while todo and len(seen) < MOST_TILES:
        tiling = todo.pop(0)
        if tiling.tile in seen or _too_large(kernel, tiling, rooms) is not None:
            continue
        choice = seen[tiling.tile] = _choice(kernel, device, tiling)
        if best is None or choice.predicted_us < best.predicted_us:
            best = choice
            todo += _neighbours(kernel, tiling)
    return best


def _choice(kernel: Kernel, device: Device, tiling: Tiling) -> Choice:
    if device.kind == "gpu":
        return Choice(tiling, plan_group(kernel, device, tile=tiling).predicted_us)
    return Choice(tiling, sum(us for _, us in kernel_terms(kernel, tiling, device, {})))


def _shrunk(kernel: Kernel, tiling: Tiling, rooms: Mapping[str, int]) -> Iterator[Tiling]:
    """The tiling, cut in half along the axis that lowers what is too large most, until it fits."""
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
    """The tiling with the axes that the kernel's output has."""
    known = extents(kernel)
    tile = tuple((a, min(n, known[a])) for a, n in tiling.tile if a in known)
    return replace(tiling, tile=tuple(sorted(tile)))


def _best(kernel: Kernel, device: Device) -> Tiling:
    return Tiling(best_tile(kernel, device).tile)


def _too_large(kernel: Kernel, tiling: Tiling, rooms: Mapping[str, int]) -> tuple[str, int] | None:
    """The first tensor that has no room, with the bytes that it takes."""
    if not rooms:
        return None
    regions = propagate(kernel, dict(tiling.tile))
    for tensor, room in rooms.items():
        held = prod(inner_box(kernel, regions, tensor)) * ITEM_BYTES[kernel.dtype(tensor)]
        if held > room:
            return tensor, held
    return None


def _memory(device: Device, level: str) -> Memory:
    return next(m for m in memories(device) if m.name == level)


def _room(device: Device, level: str) -> int:
    """Bytes that one unit has of a memory."""
    memory = _memory(device, level)
    if memory.capacity is None:
        return 1 << 62
    return memory.capacity // (device.units if memory.shared else 1)


def _not_at_its_point(device: Device) -> Refusal:
    nearest = memories(device)[1].name
    text = "its reader takes more of it than the element at its own point"
    return Refusal("register", 1, 0, text, f"connect it at {nearest}")


def _no_room(found: int, level: str, room: int, device: Device) -> Refusal:
    """A reuse tile that no tiling makes small enough, and the nearest memory that would hold it."""
    text = f"its least reuse tile takes {found:,} bytes, {level} has {room:,} for a unit"
    larger = (m.name for m in memories(device) if found <= _room(device, m.name))
    fitting = next((n for n in larger if n != REGISTER), "")
    return Refusal("capacity", found, room, text, f"connect it at {fitting}" if fitting else "")
