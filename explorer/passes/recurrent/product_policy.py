"""Cost of merging products by one constant: saved reads against lost overlap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from explorer.cost.levels import Level, levels_of
from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.ir.shapes.dims import Dim, ShapeEnv, product
from explorer.ir.types import ITEM_BYTES, Tensor
from explorer.passes.recurrent.product_groups import ProductGroup

TOGETHER, APART = "together", "apart"
TASK_VECTORS = 2  # columns of one task of a product of few rows; assumed


@dataclass(frozen=True, slots=True)
class Trips:
    """A product in each trip of a loop: a row of `operand` by `weight`."""

    count: Dim
    operand: Tensor
    weight: Tensor


def rank_grouping(
    group: ProductGroup, device: Device, env: ShapeEnv, constant_bytes: int, hoist: str
) -> tuple[Candidate[bool], ...]:
    """Return both schedules of a group's products, best first; the loser with its reason.

    apart     each product reads the constant, from the nearest memory that holds all constants of
    the program beside it (`constant_bytes`), as they alternate

    together  the constant is read once, after one global barrier. No product starts before the last
    left operand is available: units that would have worked on other steps are idle
    """
    apart = Candidate(APART, False, _separate_terms(group, device, env, constant_bytes))
    both = Candidate(TOGETHER, True, _merged_terms(group, device, env, constant_bytes))
    return _rank(apart, both, hoist)


def rank_row_hoisting(
    rows: Trips, device: Device, env: ShapeEnv, constant_bytes: int, hoist: str
) -> tuple[Candidate[bool], ...]:
    """Return both schedules of a product of the rows that a loop iterates over, best first.

    apart     each trip reads the matrix, from the nearest memory that holds all constants of the
    body (`constant_bytes`), as they alternate

    together  the matrix is read once before the loop, followed by a global barrier; the result is
    written, and read in the trips
    """
    units = max(1, device.units)
    trips, row_count = env.hint(rows.count), env.hint(product(rows.operand.dims[:-1]))
    depth, columns = (env.hint(d) for d in rows.weight.dims)
    item = ITEM_BYTES[rows.weight.element]
    load = depth * columns * item / nearest_level(device, constant_bytes).bytes_per_us / units
    compute = 2.0 * row_count * depth * columns / (device.reached_gflops_per_unit * units * 1e3)
    moved = 2 * row_count * columns * item
    move = moved / nearest_level(device, moved // 2).bytes_per_us / units
    apart = ("weights", trips * load), ("arithmetic", max(0.0, compute - trips * load))
    both = (
        ("weights", load),
        ("arithmetic", max(0.0, compute - load)),
        ("barrier", device.barrier_us if device.units > 1 else 0.0),
        ("rows", move),
    )
    return _rank(Candidate(APART, False, apart), Candidate(TOGETHER, True, both), hoist)


def _rank(apart: Candidate[bool], both: Candidate[bool], hoist: str) -> tuple[Candidate[bool], ...]:
    if hoist == "off":
        why = Refusal("option", 1, 0, "the option says off", "hoist=on or hoist=auto")
    elif hoist == "on" or both.cost_us < apart.cost_us:
        why = None
    else:
        lost = both.cost_us - apart.cost_us
        text = f"it would take {lost:.1f} us longer by the model"
        why = Refusal("gain", lost, 0.0, text, "hoist=on does it nevertheless")
    if why is None:
        return both, apart
    return apart, Candidate(TOGETHER, True, both.terms, why.words, why)


def saved_us(candidates: tuple[Candidate[bool], ...]) -> float:
    """Return the modelled time that merging the products saves."""
    cost = {c.label: sum(us for _, us in c.terms) for c in candidates}
    return cost[APART] - cost[TOGETHER]


def refuse_cyclic_group(candidates: tuple[Candidate[bool], ...]) -> tuple[Candidate[bool], ...]:
    """Refuse to merge a group that depends on itself through groups that save more."""
    both, apart = candidates
    text = "its products depend on each other through merged products"
    why = Refusal("cycle", 1, 0, text)
    return apart, replace(both, refused=why.words, why=why)


def _separate_terms(
    group: ProductGroup, device: Device, env: ShapeEnv, constant_bytes: int
) -> tuple[tuple[str, float], ...]:
    weights = len(group.products) * _load_us(group, device, constant_bytes)
    return ("weights", weights), ("arithmetic", max(0.0, _compute_us(group, device, env) - weights))


def _merged_terms(
    group: ProductGroup, device: Device, env: ShapeEnv, constant_bytes: int
) -> tuple[tuple[str, float], ...]:
    weights = _load_us(group, device, constant_bytes)
    return (
        ("weights", weights),
        ("arithmetic", max(0.0, _compute_us(group, device, env) - weights)),
        ("barrier", device.barrier_us if device.units > 1 else 0.0),
        ("lost overlap", _lost_us(group, device, constant_bytes)),
    )


def _lost_us(group: ProductGroup, device: Device, constant_bytes: int) -> float:
    """Return the idle time of units in the steps that must now end before the merged product."""
    levels = [p.level for p in group.products]
    columns = _shape(group)[1]
    tasks = -(-columns // (TASK_VECTORS * device.lanes))
    busy = min(1.0, tasks / device.units)
    step_us = _load_us(group, device, constant_bytes) / busy
    return (max(levels) - min(levels)) * step_us * (1.0 - busy)


def _load_us(group: ProductGroup, device: Device, constant_bytes: int) -> float:
    """Return the time of all units to read the constant once, a part each."""
    level = nearest_level(device, constant_bytes)
    return _weight_bytes(group) / level.bytes_per_us / max(1, device.units)


def nearest_level(device: Device, constant_bytes: int) -> Level:
    """Return the nearest memory that holds so many bytes, split over units where it is private."""
    levels = levels_of(device).levels
    for level, memory in zip(levels, device.levels, strict=True):
        parts = 1 if memory.shared else max(1, device.units)
        if memory.capacity_bytes is not None and constant_bytes <= memory.capacity_bytes * parts:
            return level
    return levels[-1]


def _compute_us(group: ProductGroup, device: Device, env: ShapeEnv) -> float:
    rows = sum(env.hint(p.rows) for p in group.products)
    return 2.0 * rows * prod(_shape(group)) / (device.reached_gflops_per_unit * device.units * 1e3)


def _weight_bytes(group: ProductGroup) -> int:
    kind = group.kind.weight.tensor
    return prod(_shape(group)) * ITEM_BYTES[kind.element]


def _shape(group: ProductGroup) -> tuple[int, int]:
    """Return depth and columns of the constant."""
    kind, result = group.kind.weight.tensor, group.products[0].result.tensor
    columns = int(result.dims[-1])
    return prod(int(n) for n in kind.dims) // columns, columns
