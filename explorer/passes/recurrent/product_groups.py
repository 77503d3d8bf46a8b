"""Products by one constant whose left operands do not need each other.

Products of a weight are numbered by how many products of the same weight lie on the longest path
before them, their generation: those of one generation are an antichain, since whatever another of
them leads to has a later generation. One sweep counts for many weights at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from explorer.ir.calls import Attrs, OpCall, Var
from explorer.ir.program import Binding, Constant, Function
from explorer.ir.shapes.dims import Dim, product
from explorer.ir.types import Tensor
from explorer.passes.recurrent.dataflow import Needs, levels, levels_of_each

WEIGHTS_AT_ONCE = 64  # that one sweep counts for: a bound on memory, chosen


@dataclass(frozen=True, slots=True)
class Kind:
    """What products must have in common to become one: the operator, its constant operands by name,
    and attributes. `added`: a constant vector that an Add of its own brings in.
    """

    op: str
    weight: Var
    bias: Var | None
    attrs: Attrs
    added: Var | None = None


@dataclass(frozen=True, slots=True)
class Product:
    """One product: the places of its bindings in the body (the second adds a vector), and what it
    multiplies. `level` is how many products of any constant are on the longest path before it.
    """

    places: tuple[int, ...]
    left: Var
    result: Var
    level: int = 0

    @property
    def rows(self) -> Dim:
        """How many rows of the weight's width it makes."""
        return product(self.left.tensor.dims[:-1])


@dataclass(frozen=True, slots=True)
class Sum:
    """A binding that adds a constant vector to a product, and what it binds."""

    place: int
    vector: Var
    result: Var


@dataclass(frozen=True, slots=True)
class ProductGroup:
    """Products of one kind, in the order in which their left operands are made: none needs
    another.
    """

    kind: Kind
    generation: int
    products: tuple[Product, ...]

    @property
    def places(self) -> tuple[int, ...]:
        """Of all their bindings, in order."""
        return tuple(sorted(n for p in self.products for n in p.places))


def product_groups(
    function: Function, constants: Mapping[str, Constant], needs: Needs
) -> tuple[ProductGroup, ...]:
    """Every antichain of two or more products that could be one. `needs`: of the body."""
    found = _products(function, constants)
    kinds = {n: kind for n, (kind, _, _) in found.items()}
    shared = {kind for kind, n in Counter(kinds.values()).items() if n > 1}
    if not shared:
        return ()
    before = generations(needs, {n: k for n, k in kinds.items() if k in shared})
    after = levels(needs, kinds)
    groups: dict[tuple[Kind, int], list[int]] = {}
    for n, generation in before.items():
        groups.setdefault((kinds[n], generation), []).append(n)
    made = {v.name: (n, i) for n, b in enumerate(function.body) for i, v in enumerate(b.vars)}
    return tuple(
        _group(kind, generation, [(found[n], after[n] - 1) for n in places], made)
        for (kind, generation), places in groups.items()
        if len(places) > 1
    )


Found: TypeAlias = tuple[Kind, Product, Sum | None]


def _group(
    kind: Kind,
    generation: int,
    members: Sequence[tuple[Found, int]],
    made: Mapping[str, tuple[int, int]],
) -> ProductGroup:
    """A group, with the vector that all its products have added, if there is one."""
    vectors = {None if added is None else added.vector for (_, _, added), _ in members}
    vector = next(iter(vectors)) if len(vectors) == 1 else None
    products = []
    for (_, one, added), level in members:
        if vector is not None and added is not None:
            one = replace(one, places=(*one.places, added.place), result=added.result)
        products.append(replace(one, level=level))
    products.sort(key=lambda p: made.get(p.left.name, (-1, 0)))
    return ProductGroup(replace(kind, added=vector), generation, tuple(products))


def _products(function: Function, constants: Mapping[str, Constant]) -> dict[int, Found]:
    """The products that something reads, by place, each with what alone reads it: a sum with a
    constant.
    """
    readers: dict[str, list[int]] = {}
    for n, b in enumerate(function.body):
        for v in b.reads:
            readers.setdefault(v.name, []).append(n)
    outputs = {v.name for v in function.outputs}
    found: dict[int, Found] = {}
    for n, b in enumerate(function.body):
        kind = kind_of(b, constants)
        if kind is None or not (b.var.name in readers or b.var.name in outputs):
            continue
        used = readers.get(b.var.name, [])
        alone = len(used) == 1 and b.var.name not in outputs and kind.bias is None
        added = _added(used[0], function.body[used[0]], b.var, constants) if alone else None
        found[n] = (kind, Product((n,), b.reads[0], b.var), added)
    return found


def kind_of(binding: Binding, constants: Mapping[str, Constant]) -> Kind | None:
    """The kind of a binding that multiplies a value by a constant matrix that is not empty; None of
    any other.
    """
    match binding.expr:
        case OpCall("MatMul", (Var() as left, Var() as weight), attrs) if weight.name in constants:
            return Kind("MatMul", weight, None, attrs) if _fits(binding, left, weight) else None
        case OpCall("Gemm", (Var() as left, Var() as weight, *rest), attrs) as call:
            bias = rest[0] if rest else None
            plain = weight.name in constants and not call.attr("transA")
            if bias is not None and not (bias.name in constants and _is_row(bias)):
                return None
            if plain and _fits(binding, left, weight):
                return Kind("Gemm", weight, bias, attrs)
    return None


def _fits(binding: Binding, left: Var, weight: Var) -> bool:
    known = all(isinstance(v.type, Tensor) and v.type.is_known for v in (left, weight, binding.var))
    if not known or not isinstance(left.type, Tensor) or not isinstance(weight.type, Tensor):
        return False
    return len(weight.type.dims) == 2 and 0 not in weight.type.dims and bool(left.type.dims)


def _is_row(vector: Var) -> bool:
    """Whether a value is the same for every row, and fits a matrix as it is."""
    if not isinstance(vector.type, Tensor) or not vector.type.is_known:
        return False
    dims = vector.type.dims
    return len(dims) <= 2 and all(n == 1 for n in dims[:-1])


def _added(
    place: int, reader: Binding, result: Var, constants: Mapping[str, Constant]
) -> Sum | None:
    """The constant vector that a reader adds to a product, and to nothing else."""
    match reader.expr:
        case OpCall("Add", (Var() as a, Var() as b)):
            vector = b if a == result else a
            plain = a != b and vector.name in constants and reader.var.type == result.type
            return Sum(place, vector, reader.var) if plain and _is_row(vector) else None
    return None


def generations(needs: Needs, kinds: Mapping[int, Kind]) -> dict[int, int]:
    """For each product, by its place, how many of its own kind the longest path before it has."""
    every = list(dict.fromkeys(kinds.values()))
    found: dict[int, int] = {}
    for begin in range(0, len(every), WEIGHTS_AT_ONCE):
        column = {kind: n for n, kind in enumerate(every[begin : begin + WEIGHTS_AT_ONCE])}
        columns = {n: column[k] for n, k in kinds.items() if k in column}
        counted = levels_of_each(needs, columns, len(column))
        found |= {n: int(counted[n, at]) - 1 for n, at in columns.items()}
    return dict(sorted(found.items()))
