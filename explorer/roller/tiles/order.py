"""Which of the tilings that were weighed come first, and which are shown."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.cost.estimate import tasks
from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.shapes.dims import ShapeEnv, Sizes
from explorer.roller.tiles.reduction_safe_cuts import repeated
from explorer.roller.tiles.weigh import refusal

# The model is not more exact than this; chosen. What it is off by is printed by
# `make bench tile_prediction`.
AS_GOOD_RATIO = 1.02
FEW_TASKS = 4  # a unit; chosen
FEWER_IN_A_RUN = 4  # times, where the extents that are cut are symbols; chosen
LEAST_TASK_US = 5.0  # of what is cut finer: to begin a task takes a part of that; chosen
LOWERED_COMPUTES, FEWEST_CANDIDATES = 90, 4  # that are tried: bounds on search time, chosen
REFUSED_CANDIDATES = 6  # that are kept, the best of them by the model; chosen


def in_order(
    weighed: list[Candidate[Tiling]],
    kernel: Kernel,
    device: Device,
    env: ShapeEnv,
    sizes: Sizes,
    top_k: int,
) -> Iterator[Candidate[Tiling]]:
    """Legal ones by modelled time, at most `top_k`, then the best of the refused ones.

    To know whether one is legal it is lowered: of kernels of many computes fewer are looked at.
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
    """Return what put one tiling before another that is as good and faster by the model, in words;
    "" where it is not behind it.
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
    """Among candidates as good as the best one, more tasks come first, up to a few a unit, but
    fewer where they would be very short; then those that compute less.

    A unit that is held up then keeps the others waiting for a small part of its share only. Where a
    run decides how many there are, it may be a few times fewer than are planned.
    """
    bound = weighed[0].cost_us * AS_GOOD_RATIO if weighed else 0.0
    equal = [c for c in weighed if c.cost_us <= bound]
    equal.sort(key=lambda c: _rank(c, kernel, device, sizes))
    return [*equal, *weighed[len(equal) :]]


def _rank(
    c: Candidate[Tiling], kernel: Kernel, device: Device, sizes: Sizes
) -> tuple[float, float, int]:
    """What is compared of tilings that are as good by the model, the smaller the better."""
    return -_suiting(c, kernel, device, sizes), _busy_us(c), _panel(c)


def _suiting(c: Candidate[Tiling], kernel: Kernel, device: Device, sizes: Sizes) -> float:
    """How well the number of its tasks suits the units."""
    count, units = tasks(kernel, c.value, sizes), max(1, device.units)
    most = FEW_TASKS * units
    if c.cost_us * units < count * LEAST_TASK_US:
        return 1 / count
    by_run = {a.name for k in kernel.computes for a in k.axes if not isinstance(a.extent, int)}
    if by_run.isdisjoint(name for name, _ in c.value.tile):
        return count if count <= most else 0
    return min(count, FEWER_IN_A_RUN * most)


def _panel(c: Candidate[Tiling]) -> int:
    """Columns of a register tile: the fewer, the less of the right operand a step reads from L2."""
    return c.value.micro.columns


def _busy_us(c: Candidate[Tiling]) -> float:
    """What a tiling computes, while it loads or not: the less, the less a slow load delays it."""
    return sum(us for name, us in c.terms if name in ("compute", "pack", "edge"))
