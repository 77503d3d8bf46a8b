"""Tiles by alignment and reuse, scored by the model alone: no kernel runs (Roller, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.devices.model import Device
from explorer.devices.target import target_of
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.regions import Regions
from explorer.roller.contraction_in_tile import ContractionInTile, fitting_micros
from explorer.roller.tile_cuts import Cut, cuts, shape_of
from explorer.roller.tile_order import in_order
from explorer.roller.weigh_tiles import scored
from explorer.tile.lowering.lower import with_sum_lanes

SHOWN_CANDIDATES = 24  # legal candidates, best first; chosen


def candidates(
    kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes, top_k: int = SHOWN_CANDIDATES
) -> Iterator[Candidate[Tiling]] | Iterator[Candidate[Tiling]]:
    """Yield the tilings of a kernel in normal form, best first, or on a GPU its thread blocks.

    Refused tilings with the rule that they break follow the legal ones. `sizes` is the binding that
    is tiled for; a kernel stays correct for any other.
    """
    return target_of(device).candidates(kernel, device, env, sizes, top_k)


def tile_candidates(
    kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes, top_k: int = SHOWN_CANDIDATES
) -> Iterator[Candidate[Tiling]]:
    """Yield the tilings of a kernel in normal form for a CPU, best first, then refused ones."""
    weighed = weighed_cuts(kernel, device, sizes)
    yield from in_order(weighed, kernel, device, env, sizes, top_k)


def weighed_cuts(kernel: Kernel, device: Device, sizes: Sizes) -> list[Candidate[Tiling]]:
    """Return every cut that `candidates` considers, with its modelled time, legal or not."""
    return [scored(kernel, t, device, sizes, r) for t, r in _tilings(kernel, device, sizes)]


def refined(
    kernel: Kernel,
    cut: Cut,
    device: Device,
    env: ShapeEnv,
    sizes: Sizes,
    top_k: int = SHOWN_CANDIDATES,
) -> Iterator[Candidate[Tiling]]:
    """Yield the tilings of a kernel inside of a given tile, best first.

    Welder has chosen the tile; the kernel is in normal form.
    """
    weighed = weighed_inside(kernel, cut, device, sizes)
    yield from in_order(weighed, kernel, device, env, sizes, top_k)


def weighed_inside(
    kernel: Kernel, cut: Cut, device: Device, sizes: Sizes
) -> list[Candidate[Tiling]]:
    """Return the tilings inside of a given tile with their modelled times, legal or not."""
    choice = ContractionInTile.of(kernel, device, sizes).choice(cut)
    if choice is None:
        return []
    regions, pack, block = choice
    shape, own = shape_of(kernel, sizes), with_sum_lanes(kernel, device)
    return [
        scored(kernel, Tiling(cut, micro, pack, block), device, sizes, regions)
        for micro in fitting_micros(shape, cut, regions, own, sizes)
    ]


def _tilings(kernel: Kernel, device: Device, sizes: Sizes) -> Iterator[tuple[Tiling, Regions]]:
    inside, own = ContractionInTile.of(kernel, device, sizes), with_sum_lanes(kernel, device)
    for cut in cuts(kernel, inside.shape, device):
        choice = inside.choice(cut)
        if choice is not None:
            regions, pack, block = choice
            for micro in fitting_micros(inside.shape, cut, regions, own, sizes):
                yield Tiling(cut, micro, pack, block), regions
