"""Ranking of weighed tilings, and the choice of those that are shown."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.cost.estimate import tasks
from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.kernel import Kernel
from explorer.roller.tile_cuts import repeated
from explorer.roller.weigh_tiles import refusal

# The precision of the model; chosen. Its error is printed by
# `make bench tile_prediction`.
AS_GOOD_RATIO = 1.02
FEW_TASKS = 4  # a unit; chosen
FEWER_IN_A_RUN = 4  # times, if symbolic extents are cut; chosen
LEAST_TASK_US = 5.0  # of finer tasks: starting a task takes a part of it; chosen
LOWERED_COMPUTES, FEWEST_CANDIDATES = 90, 4  # lowered to check them: bounds on search time, chosen
REFUSED_CANDIDATES = 6  # shown, the best by the model; chosen


def in_order(
    weighed: list[Candidate[Tiling]],
    kernel: Kernel,
    device: Device,
    env: ShapeEnv,
    sizes: Sizes,
    top_k: int,
) -> Iterator[Candidate[Tiling]]:
    """Yield the legal tilings by modelled time, at most `top_k`, then the best of the refused ones.

    A tiling is lowered to know whether it is legal: of kernels with many computes fewer are tried.
    """
    refused: list[Candidate[Tiling]] = []
    legal = 0
    most = max(FEWEST_CANDIDATES, LOWERED_COMPUTES // max(1, len(kernel.computes)))
    for candidate in _finer_first(sorted(weighed, key=lambda c: c.cost_us), kernel, device, sizes):
        cut = candidate.value.tile
        why = repeated(kernel, cut, env) or refusal(kernel, candidate.value, device, env, sizes)
        if not why:
            legal += 1
            yield candidate
        elif len(refused) < REFUSED_CANDIDATES:
            refused.append(Candidate(candidate.label, candidate.value, candidate.terms, why))
        if legal == top_k or (legal and legal + len(refused) >= most):
            break
    yield from refused


def why_first(
    first: Candidate[Tiling],
    fastest: Candidate[Tiling],
    kernel: Kernel,
    device: Device,
    sizes: Sizes,
) -> str:
    """Return why one tiling is ranked before another that is slightly faster by the model.

    It is "" if it is not ranked that way.
    """
    if not fastest.cost_us < first.cost_us <= fastest.cost_us * AS_GOOD_RATIO:
        return ""
    behind, busy, panel = zip(*(_rank(c, kernel, device, sizes) for c in (first, fastest)))
    if behind[0] < behind[1]:
        mine, other = (tasks(kernel, c.value, sizes) for c in (first, fastest))
        suits = "1 task suits" if mine == 1 else f"{mine} tasks suit"
        return f"its {suits} {device.units} core{'s' * (device.units != 1)} better than {other}"
    if busy[0] < busy[1]:
        return "it computes less, and loads more"
    return "its register tile reads fewer columns" if panel[0] < panel[1] else ""


def _finer_first(
    weighed: list[Candidate[Tiling]], kernel: Kernel, device: Device, sizes: Sizes
) -> list[Candidate[Tiling]]:
    """Rank candidates that are as good as the best one.

    More tasks come first, up to a few a unit, but fewer if they would be very short; then those
    that compute less. A unit that is delayed then delays the others by a small part of its share
    only. If a run decides the number of tasks, it may be a few times smaller than planned.
    """
    bound = weighed[0].cost_us * AS_GOOD_RATIO if weighed else 0.0
    equal = [c for c in weighed if c.cost_us <= bound]
    equal.sort(key=lambda c: _rank(c, kernel, device, sizes))
    return [*equal, *weighed[len(equal) :]]


def _rank(
    c: Candidate[Tiling], kernel: Kernel, device: Device, sizes: Sizes
) -> tuple[float, float, int]:
    """Return the sort key of tilings that are equal by the model, the smaller the better."""
    return -_suiting(c, kernel, device, sizes), _busy_us(c), _panel(c)


def _suiting(c: Candidate[Tiling], kernel: Kernel, device: Device, sizes: Sizes) -> float:
    """Return how well the number of tasks suits the units."""
    count, units = tasks(kernel, c.value, sizes), max(1, device.units)
    most = FEW_TASKS * units
    if c.cost_us * units < count * LEAST_TASK_US:
        return 1 / count
    by_run = {a.name for k in kernel.computes for a in k.axes if not isinstance(a.extent, int)}
    if by_run.isdisjoint(name for name, _ in c.value.tile):
        return count if count <= most else 0
    return min(count, FEWER_IN_A_RUN * most)


def _panel(c: Candidate[Tiling]) -> int:
    """Return the columns of a register tile: fewer read less of the right operand a step."""
    return c.value.micro.columns


def _busy_us(c: Candidate[Tiling]) -> float:
    """Return the time of computing alone: the less, the less a slow load delays it."""
    return sum(us for name, us in c.terms if name in ("compute", "pack", "edge"))
