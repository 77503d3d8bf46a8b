"""Construction of the tiles of one operator for one device; no kernel runs (Roller, OSDI 2022)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.kernel import Kernel
from explorer.ir.patterns.contraction import contraction
from explorer.ir.shapes.dims import Sizes
from explorer.roller.construct.axis_fusion import Fused, fuse_axes, unfused
from explorer.roller.construct.cpu_rules import CpuRules
from explorer.roller.construct.enlarge import Search
from explorer.roller.construct.expression import Expression, heaviest, of_compute
from explorer.roller.construct.gpu_rules import GpuRules
from explorer.roller.construct.implicit_gemm import as_matmul
from explorer.roller.construct.levels import LevelRules
from explorer.roller.construct.memory_bound import is_memory_bound
from explorer.roller.construct.rtile import TiledProgram, unit_tile
from explorer.roller.construct.score import SCORES, Score
from explorer.roller.construct.shrink import shrink_tiles
from explorer.roller.construct.steps import Construction

EPS_STEP, STREAMED_EPS_STEP = 0.2, 0.1  # Roller artifact
CPU_EPS_STEP = 0.05  # registers take any number of rows, so steps are finer; chosen
CPU_CHOICE_EPS = 0.2  # waste allowed for more than one result; chosen
EPS_CAP = 1.0  # Roller artifact
KEPT_RESULTS = 512  # expressions with cached results: a bound on memory, chosen
KEPT_TILES_ON_CPU = 2  # the register tile and the unit tile of any operator


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
    gpu_step = STREAMED_EPS_STEP if streamed else EPS_STEP
    if device.kind == "cpu":
        results = search.run(CPU_EPS_STEP, growth.eps_cap, min(CPU_CHOICE_EPS, growth.eps_cap))
    else:
        results = search.run(gpu_step, growth.eps_cap, growth.eps_cap)
    if growth.shrink:
        kept_levels = KEPT_TILES_ON_CPU if device.kind == "cpu" else 0
        results = _distinct(shrink_tiles(p, device.units, kept_levels) for p in results)
    return Construction(
        e.name, device.name, "memory bound" if streamed else "compute bound", growth.score, e,
        fused.groups, rules.levels, tuple(search.steps), tuple(search.rounds), results,
    )  # fmt: skip


def results_of(
    e: Expression, device: Device, growth: Growth = Growth()
) -> tuple[TiledProgram, ...]:
    """Return the results alone; repeated layers that differ in names share one construction."""
    programs = _results_of(e.nameless(), device, replace(growth, steps=False))
    return tuple(p.of(e) for p in programs)


@lru_cache(KEPT_RESULTS)
def _results_of(e: Expression, device: Device, growth: Growth) -> tuple[TiledProgram, ...]:
    return of_expression(unfused(e), device, growth).results


def rules_for(device: Device, expression: Expression) -> tuple[LevelRules, bool]:
    """Return the device's rules for the expression's tiles, and True if tiles are streamed.

    Raises:
        BadOption: the data sheet of a GPU lacks a limit of blocks.
    """
    streamed = is_memory_bound(expression)
    if device.kind == "cpu":
        return CpuRules(device, expression, streamed), streamed
    needed = ("block_threads", "block_shared_bytes", "transaction_bytes", "banks")
    missing = [n for n in needed if not getattr(device, n)]
    if missing:
        raise BadOption(
            f"no tiles can be constructed for {device.name}: its data sheet lacks {missing[0]}"
        )
    return GpuRules(device, streamed), streamed


def _distinct(programs: Iterable[TiledProgram]) -> tuple[TiledProgram, ...]:
    """Return each tiling once, at its first place: different programs may shrink to the same."""
    first: dict[tuple[tuple[int, ...], ...], TiledProgram] = {}
    for p in programs:
        first.setdefault(tuple(t.shape for t in p.tiles), p)
    return tuple(first.values())
