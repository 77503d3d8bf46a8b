"""Construction of the tiles of one operator for one device; no kernel runs (Roller, OSDI 2022).

An operator that reuses its operands too little for compute-bound tiles is memory bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import prod

from explorer.devices.model import Device
from explorer.devices.target import Target, target_of
from explorer.errors import BadOption
from explorer.ir.dims import Sizes
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.contraction import contraction
from explorer.roller.construct.axis_fusion import Fused, as_matmul, fuse_axes, unfused
from explorer.roller.construct.enlarge import SCORES, Score, Search
from explorer.roller.construct.expression import Expression, heaviest, of_compute
from explorer.roller.construct.levels import LevelRules
from explorer.roller.construct.rtile import RTile, TiledProgram, unit_tile
from explorer.roller.construct.shrink import shrink_tiles
from explorer.roller.construct.steps import Construction

EPS_CAP = 1.0  # Roller artifact
KEPT_RESULTS = 512  # expressions with cached results: a bound on memory, chosen


@dataclass(frozen=True, slots=True)
class Growth:
    """Options of the construction.

    `score` rates the axes to enlarge ("paper" or "artifact"). `top_k` is the number of results,
    `each` of those with the same register tile (None: all). `eps_cap` bounds the waste that is
    allowed where nothing wastes less. `fuse` fuses axes that all tensors iterate over as one, and
    makes a matrix product of a convolution. `shrink` cuts operators finer that leave units without
    work. `steps` records every visited tile with its times, for use beyond the results.
    """

    score: Score = "artifact"
    top_k: int = 10
    each: int | None = None
    eps_cap: float = EPS_CAP
    fuse: bool = True
    shrink: bool = True
    steps: bool = True

    def __post_init__(self) -> None:
        """Check the options; BadOption if one is invalid."""
        if self.score not in SCORES:
            raise BadOption(f"roller.score is {' or '.join(SCORES)}, found {self.score!r}")
        if self.top_k < 1:
            raise BadOption(f"roller.top_k is 1 or more, found {self.top_k}")


def construct(
    kernel: Kernel, device: Device, sizes: Sizes | None = None, growth: Growth = Growth()
) -> Construction:
    """Construct the tiles of a kernel's heaviest compute, best first, with every step."""
    binding = sizes or {}
    c = heaviest(kernel, binding)
    match = contraction(c)
    if not growth.fuse:
        return of_expression(unfused(of_compute(kernel, c, binding)), device, growth)
    if match is not None:
        return of_expression(as_matmul(kernel, c, match, binding), device, growth)
    return of_expression(fuse_axes(of_compute(kernel, c, binding)), device, growth)


def of_expression(fused: Fused, device: Device, growth: Growth = Growth()) -> Construction:
    """Construct the tiles of one expression, as `construct`."""
    e = fused.expression
    rules, streamed = rules_for(device, e)
    each = growth.each or growth.top_k
    search = Search(rules, growth.score, growth.top_k, unit_tile(e), each, growth.steps)
    results = search.run(rules.eps_step, growth.eps_cap, min(rules.choice_eps, growth.eps_cap))
    if growth.shrink:
        results = _distinct(shrink_tiles(p, device.units, rules.kept_tiles) for p in results)
    return Construction(
        e.name, device.name, "memory bound" if streamed else "compute bound", growth.score, e,
        fused.groups, rules.levels, tuple(search.steps), tuple(search.rounds), results,
    )  # fmt: skip


def results_of(
    e: Expression, device: Device, growth: Growth = Growth()
) -> tuple[TiledProgram, ...]:
    """Return the results alone; repeated layers that differ in names share one construction."""
    programs = _results_of(e.nameless(), device, target_of(device), replace(growth, steps=False))
    return tuple(p.of(e) for p in programs)


@lru_cache(KEPT_RESULTS)
def _results_of(
    e: Expression, device: Device, target: Target, growth: Growth
) -> tuple[TiledProgram, ...]:
    """Return the results; another target under the device's name has others."""
    return of_expression(unfused(e), device, growth).results


def rules_for(device: Device, expression: Expression) -> tuple[LevelRules, bool]:
    """Return the device's rules for the expression's tiles, and True if tiles are streamed.

    Raises:
        BadOption: the data sheet of a GPU lacks a limit of blocks.
    """
    streamed = is_memory_bound(expression)
    return target_of(device).tile_rules(device, expression, streamed), streamed


def _distinct(programs: Iterable[TiledProgram]) -> tuple[TiledProgram, ...]:
    """Return each tiling once, at its first place: different programs may shrink to the same."""
    first: dict[tuple[tuple[int, ...], ...], TiledProgram] = {}
    for p in programs:
        first.setdefault(tuple(t.shape for t in p.tiles), p)
    return tuple(first.values())


SHARES = tuple(n / 10 for n in range(1, 10))
LEAST_POINTS_A_BYTE, LEAST_MEAN_POINTS_A_BYTE = 2.0, 4.0  # of the whole operator; Roller artifact


def reuse_slopes(expression: Expression) -> tuple[float, ...]:
    """Return the growth of points a loaded byte from tiles of 10 % of every axis to 90 %."""
    points = [_points_per_byte(expression, share) for share in SHARES]
    return tuple((b - a) / (SHARES[1] - SHARES[0]) for a, b in pairwise(points))


def is_memory_bound(expression: Expression) -> bool:
    """Return True if a larger tile hardly computes more for each byte.

    That is a least slope of at most 2, or a mean of at most 4.
    """
    slopes = reuse_slopes(expression)
    return (
        min(slopes) <= LEAST_POINTS_A_BYTE or sum(slopes) / len(slopes) <= LEAST_MEAN_POINTS_A_BYTE
    )


def _points_per_byte(e: Expression, share: float) -> float:
    shape = tuple(max(1, int(share * n)) for n in e.extents)
    tile = RTile(e, shape)
    loaded = sum(a.item_bytes * prod(a.tile(tile.whole_shape)) for a in e.inputs)
    return prod(shape) / loaded if loaded else 0.0
