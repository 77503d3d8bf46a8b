"""Whether products by one constant become one: what reading it once is worth, and what it costs."""

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
    """A product in each of so many trips of a loop: a row of `whole` by `weight`."""

    count: Dim
    whole: Tensor
    weight: Tensor


def weigh(
    group: ProductGroup, device: Device, env: ShapeEnv, constant_bytes: int, hoist: str
) -> tuple[Candidate[bool], ...]:
    """Both ways to do the products of a group, the one to take first; the loser with its reason.

    apart     the constant is read once a product, from the nearest memory that holds all constants
              of the program beside it (`constant_bytes`): they take turns
    together  it is read once, all units meet once, and no product can begin before the last left
              operand is there: units that would have worked on other steps meanwhile are idle
    """
    apart = Candidate(APART, False, _apart(group, device, env, constant_bytes))
    both = Candidate(TOGETHER, True, _together(group, device, env, constant_bytes))
    return _in_order(apart, both, hoist)


def weigh_rows(
    rows: Trips, device: Device, env: ShapeEnv, constant_bytes: int, hoist: str
) -> tuple[Candidate[bool], ...]:
    """Both ways to multiply the rows that a loop goes over, the one to take first.

    apart     the matrix is read in each trip, from the nearest memory that holds all constants of
              the body (`constant_bytes`), as they take turns
    together  before the loop it is read once, and all units meet; what comes of it is written, and
              read in the trips
    """
    units = max(1, device.units)
    trips, made = env.hint(rows.count), env.hint(product(rows.whole.dims[:-1]))
    depth, columns = (env.hint(d) for d in rows.weight.dims)
    item = ITEM_BYTES[rows.weight.element]
    load = depth * columns * item / home(device, constant_bytes).bytes_per_us / units
    compute = 2.0 * made * depth * columns / (device.reached_gflops_per_unit * units * 1e3)
    moved = 2 * made * columns * item
    move = moved / home(device, moved // 2).bytes_per_us / units
    apart = ("weights", trips * load), ("arithmetic", max(0.0, compute - trips * load))
    both = (
        ("weights", load),
        ("arithmetic", max(0.0, compute - load)),
        ("barrier", device.barrier_us if device.units > 1 else 0.0),
        ("rows", move),
    )
    return _in_order(Candidate(APART, False, apart), Candidate(TOGETHER, True, both), hoist)


def _in_order(
    apart: Candidate[bool], both: Candidate[bool], hoist: str
) -> tuple[Candidate[bool], ...]:
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


def saved_us(found: tuple[Candidate[bool], ...]) -> float:
    """What doing the products together saves by the model."""
    cost = {c.label: sum(us for _, us in c.terms) for c in found}
    return cost[APART] - cost[TOGETHER]


def needed_by_itself(found: tuple[Candidate[bool], ...]) -> tuple[Candidate[bool], ...]:
    """The decision on a group that waits for itself by way of groups that save more."""
    both, apart = found
    text = "its products need each other by way of products that became one"
    why = Refusal("cycle", 1, 0, text)
    return apart, replace(both, refused=why.words, why=why)


def _apart(
    group: ProductGroup, device: Device, env: ShapeEnv, constant_bytes: int
) -> tuple[tuple[str, float], ...]:
    weights = len(group.products) * _load_us(group, device, constant_bytes)
    return ("weights", weights), ("arithmetic", max(0.0, _compute_us(group, device, env) - weights))


def _together(
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
    """Time of units that one step does not fill, in the steps that have to end first now."""
    levels = [p.level for p in group.products]
    columns = _shape(group)[1]
    tasks = -(-columns // (TASK_VECTORS * device.lanes))
    busy = min(1.0, tasks / device.units)
    step_us = _load_us(group, device, constant_bytes) / busy
    return (max(levels) - min(levels)) * step_us * (1.0 - busy)


def _load_us(group: ProductGroup, device: Device, constant_bytes: int) -> float:
    """The time of all units to read the constant once, each a part."""
    level = home(device, constant_bytes)
    return _weight_bytes(group) / level.bytes_per_us / max(1, device.units)


def home(device: Device, constant_bytes: int) -> Level:
    """The nearest memory that holds so many bytes, each unit's part of them where it is private."""
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
    """Depth and columns of the constant."""
    kind, result = group.kind.weight.tensor, group.products[0].result.tensor
    columns = int(result.dims[-1])
    return prod(int(n) for n in kind.dims) // columns, columns
