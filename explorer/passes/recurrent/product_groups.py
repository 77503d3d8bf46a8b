"""Groups of products by one constant whose left operands are independent.

The generation of a product is the number of products of the same weight on the longest path before
it. Products of one generation are an antichain, since a successor has a later generation. One sweep
counts for many weights at once.
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
