"""Groups of products by one constant whose left operands are independent, and the cost of merging.

The generation of a product is the number of products of the same weight on the longest path before
it. Products of one generation are an antichain, since a successor has a later generation. One sweep
counts for many weights at once. Merging saves reads of the constant and loses overlap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from explorer.cost.levels import Level, levels_of
from explorer.devices.model import Device
from explorer.ir.calls import Attrs, OpCall, Var
from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.ir.dims import Dim, ShapeEnv, product
from explorer.ir.program import Binding, Constant, Function
from explorer.ir.types import ITEM_BYTES, Tensor
from explorer.transforms.loop_dataflow import Needs, levels, levels_of_each

TOGETHER, APART = "together", "apart"
TASK_VECTORS = 2  # columns of one task of a product of few rows; assumed
WEIGHTS_AT_ONCE = 64  # weights counted by one sweep: a bound on memory, chosen


@dataclass(frozen=True, slots=True)
class Kind:
    """The common properties of mergeable products: operator, constant operands by name, attributes.

    `added`: a constant vector that a separate Add brings in.
    """

    op: str
    weight: Var
    bias: Var | None
    attrs: Attrs
    added: Var | None = None


@dataclass(frozen=True, slots=True)
class Product:
    """A product: the positions of its bindings (the second adds a vector) and its operand.

    `level` is the number of products of any constant on the longest path before it.
    """

    places: tuple[int, ...]
    left: Var
    result: Var
    level: int = 0

    @property
    def rows(self) -> Dim:
        """The number of rows of the weight's width."""
        return product(self.left.tensor.dims[:-1])


@dataclass(frozen=True, slots=True)
class Sum:
    """A binding that adds a constant vector to a product, and its result."""

    place: int
    vector: Var
    result: Var


@dataclass(frozen=True, slots=True)
class ProductGroup:
    """Independent products of one kind, in the order of their left operands."""

    kind: Kind
    generation: int
    products: tuple[Product, ...]

    @property
    def places(self) -> tuple[int, ...]:
        """The positions of all their bindings, in order."""
        return tuple(sorted(n for p in self.products for n in p.places))


def product_groups(
    function: Function, constants: Mapping[str, Constant], needs: Needs
) -> tuple[ProductGroup, ...]:
    """Return every antichain of two or more mergeable products. `needs`: of the body."""
    products = _find_products(function, constants)
    kinds = {n: kind for n, (kind, _, _) in products.items()}
    shared = {kind for kind, n in Counter(kinds.values()).items() if n > 1}
    if not shared:
        return ()
    before = generations(needs, {n: k for n, k in kinds.items() if k in shared})
    after = levels(needs, kinds)
    groups: dict[tuple[Kind, int], list[int]] = {}
    for n, generation in before.items():
        groups.setdefault((kinds[n], generation), []).append(n)
    definitions = {
        v.name: (n, i) for n, b in enumerate(function.body) for i, v in enumerate(b.vars)
    }
    return tuple(
        _build_group(kind, generation, [(products[n], after[n] - 1) for n in places], definitions)
        for (kind, generation), places in groups.items()
        if len(places) > 1
    )


_Match: TypeAlias = tuple[Kind, Product, Sum | None]


def _build_group(
    kind: Kind,
    generation: int,
    members: Sequence[tuple[_Match, int]],
    definitions: Mapping[str, tuple[int, int]],
) -> ProductGroup:
    """Build a group, with the vector that all its products have added, if there is one."""
    vectors = {None if added is None else added.vector for (_, _, added), _ in members}
    vector = next(iter(vectors)) if len(vectors) == 1 else None
    products = []
    for (_, member, added), level in members:
        if vector is not None and added is not None:
            member = replace(member, places=(*member.places, added.place), result=added.result)
        products.append(replace(member, level=level))
    products.sort(key=lambda p: definitions.get(p.left.name, (-1, 0)))
    return ProductGroup(replace(kind, added=vector), generation, tuple(products))


def _find_products(function: Function, constants: Mapping[str, Constant]) -> dict[int, _Match]:
    """Return the live products by position, each with the constant sum that alone reads it."""
    readers: dict[str, list[int]] = {}
    for n, b in enumerate(function.body):
        for v in b.reads:
            readers.setdefault(v.name, []).append(n)
    outputs = {v.name for v in function.outputs}
    products: dict[int, _Match] = {}
    for n, b in enumerate(function.body):
        kind = kind_of(b, constants)
        if kind is None or not (b.var.name in readers or b.var.name in outputs):
            continue
        used = readers.get(b.var.name, [])
        alone = len(used) == 1 and b.var.name not in outputs and kind.bias is None
        added = (
            _match_added_vector(used[0], function.body[used[0]], b.var, constants)
            if alone
            else None
        )
        products[n] = (kind, Product((n,), b.reads[0], b.var), added)
    return products


def kind_of(binding: Binding, constants: Mapping[str, Constant]) -> Kind | None:
    """Return the kind of a product by a nonempty constant matrix, None for other bindings."""
    match binding.expr:
        case OpCall("MatMul", (Var() as left, Var() as weight), attrs) if weight.name in constants:
            return (
                Kind("MatMul", weight, None, attrs)
                if _has_matrix_shapes(binding, left, weight)
                else None
            )
        case OpCall("Gemm", (Var() as left, Var() as weight, *bias_operands), attrs) as call:
            bias = bias_operands[0] if bias_operands else None
            plain = weight.name in constants and not call.attr("transA")
            if bias is not None and not (bias.name in constants and _is_row(bias)):
                return None
            if plain and _has_matrix_shapes(binding, left, weight):
                return Kind("Gemm", weight, bias, attrs)
    return None


def _has_matrix_shapes(binding: Binding, left: Var, weight: Var) -> bool:
    has_shapes = all(
        isinstance(v.type, Tensor) and v.type.is_known for v in (left, weight, binding.var)
    )
    if not has_shapes or not isinstance(left.type, Tensor) or not isinstance(weight.type, Tensor):
        return False
    return len(weight.type.dims) == 2 and 0 not in weight.type.dims and bool(left.type.dims)


def _is_row(vector: Var) -> bool:
    """Return True if a value is the same for every row and broadcasts to a matrix."""
    if not isinstance(vector.type, Tensor) or not vector.type.is_known:
        return False
    dims = vector.type.dims
    return len(dims) <= 2 and all(n == 1 for n in dims[:-1])


def _match_added_vector(
    place: int, reader: Binding, result: Var, constants: Mapping[str, Constant]
) -> Sum | None:
    """Return the constant vector that a reader adds to a product and to nothing else."""
    match reader.expr:
        case OpCall("Add", (Var() as a, Var() as b)):
            vector = b if a == result else a
            plain = a != b and vector.name in constants and reader.var.type == result.type
            return Sum(place, vector, reader.var) if plain and _is_row(vector) else None
    return None


def generations(needs: Needs, kinds: Mapping[int, Kind]) -> dict[int, int]:
    """Return the generation of each product, by position."""
    every = list(dict.fromkeys(kinds.values()))
    generation_of: dict[int, int] = {}
    for begin in range(0, len(every), WEIGHTS_AT_ONCE):
        column = {kind: n for n, kind in enumerate(every[begin : begin + WEIGHTS_AT_ONCE])}
        columns = {n: column[k] for n, k in kinds.items() if k in column}
        counted = levels_of_each(needs, columns, len(column))
        generation_of |= {n: int(counted[n, at]) - 1 for n, at in columns.items()}
    return dict(sorted(generation_of.items()))


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
