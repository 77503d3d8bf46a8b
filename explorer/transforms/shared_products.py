"""Matrix products by one constant, merged: input projections hoisted over time.

A layer unrolled over time multiplies each step's input by the same matrix. These products are
independent, so they become one product of all rows, which reads the matrix once; the steps then
read its rows (Appleyard, Kocisky and Blunsom 2016, Optimizing performance of recurrent neural
networks on GPUs, section 3.1.1). In a loop the same product moves before the loop:

    x_t = gather(x, t); y_t = x_t @ w   in a loop   ->   y = x @ w   before it, and in it
    y_t = gather(y, t)

The rest of an unrolled layer runs layer by layer, so that the matrix of a layer's state stays in
cache between reads. Other orders of the bindings are by time step and diagonal:

    layer      of a binding: the constant of the last product on a path to it, numbered by where
               that constant is used first
    time step  of a binding: the largest number of products of one constant on a path to it
    diagonal   of a binding: the largest number of products of any constant on a path to it

Each rank is monotone along the dataflow, so sorting by it keeps every value before its readers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

from explorer.devices.model import Device
from explorer.ir.calls import Expr, Loop, OpCall, Var
from explorer.ir.decisions.decided import ProductsDecision
from explorer.ir.dims import Dim, simplify
from explorer.ir.program import Binding, Constant, Function, Program, fresh
from explorer.ir.types import Tensor
from explorer.ops.lowering import UNROLL
from explorer.passes.ranges import Integer, OneOf, check, option
from explorer.passes.registry import compiler_pass
from explorer.transforms.counted_loops import COUNTERS, trips_of
from explorer.transforms.loop_dataflow import (
    Needs,
    Order,
    levels,
    levels_of_each,
    needs_of,
    order_groups,
)
from explorer.transforms.product_groups import (
    TOGETHER,
    WEIGHTS_AT_ONCE,
    ProductGroup,
    Trips,
    kind_of,
    product_groups,
    rank_grouping,
    rank_row_hoisting,
    refuse_cyclic_group,
    saved_us,
)

Weights: TypeAlias = Mapping[int, str]  # by position of a product, its constant
AS_WRITTEN = "as written"
MOST_UNROLLED_TRIPS = 1 << 16  # largest value of the option; chosen


def layers(needs: Needs, weights: Weights) -> list[int]:
    """Return the layer of each binding, from 1; 0 if no product is on a path to it."""
    first: dict[str, int] = {}
    ranks: list[int] = []
    for n, needed in enumerate(needs):
        mine = max([ranks[at] for at in needed], default=0)
        if n in weights:
            mine = max(mine, first.setdefault(weights[n], len(first) + 1))
        ranks.append(mine)
    return ranks


def time_steps(needs: Needs, weights: Weights) -> list[int]:
    """Return the time step of each binding, from 1; 0 if no product is on a path to it."""
    every = list(dict.fromkeys(weights.values()))
    ranks = [0] * len(needs)
    for begin in range(0, len(every), WEIGHTS_AT_ONCE):
        column = {name: n for n, name in enumerate(every[begin : begin + WEIGHTS_AT_ONCE])}
        columns = {n: column[name] for n, name in weights.items() if name in column}
        most = levels_of_each(needs, columns, len(column)).max(axis=1).tolist()
        ranks = list(map(max, ranks, most))
    return ranks


def diagonals(needs: Needs, weights: Weights) -> list[int]:
    """Return the diagonal of each binding, from 1; 0 if no product is on a path to it."""
    return levels(needs, weights)


ORDERS: Mapping[str, Callable[[Needs, Weights], list[int]]] = MappingProxyType(
    {"by layer": layers, "by time step": time_steps, "diagonal": diagonals}
)


def order_bindings(
    body: Sequence[Binding], constants: Mapping[str, Constant], order: str
) -> tuple[Binding, ...]:
    """Return the bindings in a named order; bindings of equal rank keep their relative order."""
    if order == AS_WRITTEN:
        return tuple(body)
    kinds = ((n, kind_of(b, constants)) for n, b in enumerate(body))
    weights = {n: kind.weight.name for n, kind in kinds if kind is not None}
    ranks = ORDERS[order](needs_of(body), weights)
    return tuple(body[n] for n in sorted(range(len(body)), key=ranks.__getitem__))


@dataclass(frozen=True, slots=True)
class Options:
    """Options of recurrent layers: single operators, layers unrolled over time, and loops.

    hoist   "auto": products by one constant are merged, and those of a loop's rows are hoisted,
            where the model predicts a gain; "on": wherever possible; "off": nowhere
    order   "as written", "by layer", "by time step", "diagonal": order of the bindings; "auto":
            by layer where products were merged, else as written
    split   "auto": a loop over layers becomes a loop for each layer where the model predicts a
            gain; "on": wherever possible; "off": nowhere
    unroll  an RNN, LSTM or GRU of at most so many steps is unrolled; a longer one, or one of
            symbolic length, is a loop
    """

    hoist: str = option("auto", OneOf(("auto", "on", "off")), "merge products by one constant")
    order: str = option("auto", OneOf(("auto", AS_WRITTEN, *ORDERS)), "the order of bindings")
    split: str = option("auto", OneOf(("auto", "on", "off")), "split loops over layers")
    unroll: int = option(
        UNROLL, Integer(0, MOST_UNROLLED_TRIPS), "steps up to which a layer is unrolled"
    )

    def __post_init__(self) -> None:
        """Raise BadOption if a field is invalid."""
        check("recurrent", self)


@compiler_pass("share-products", paper="Appleyard et al. 2016, section 3.1.1; Rammer, section 5")
@dataclass(frozen=True, slots=True)
class ShareProducts:
    """A pass that merges input projections over time and orders layers and steps."""

    device: Device
    options: Options = Options()

    def __call__(self, program: Program) -> Program:
        """Merge independent products by one constant where the model predicts a gain.

        `a = x @ w; b = y @ w` becomes `t = concat(x, y); u = t @ w; a, b = split(u)`. The decisions
        list each candidate group and the order of the main function.
        """
        size = sum(c.nbytes for c in program.constants.values())
        weighed: list[ProductsDecision] = []
        functions = []
        for f in program.functions:
            shared, decisions = self._function(f, program, size)
            weighed += decisions
            order = self._order(decisions)
            body = order_bindings(shared.body, program.constants, order)
            functions.append(shared if body == shared.body else replace(shared, body=body))
        if not weighed and self.options.order in ("auto", AS_WRITTEN):
            return program
        main = tuple(d for d in weighed if d.function == program.main.name)
        left = replace(program.decisions, products=tuple(weighed), order=self._order(main))
        return replace(program, functions=tuple(functions), decisions=left)

    def _order(self, decisions: Iterable[ProductsDecision]) -> str:
        if self.options.order != "auto":
            return self.options.order
        return "by layer" if any(d.chosen == TOGETHER for d in decisions) else AS_WRITTEN

    def _function(
        self, f: Function, program: Program, constant_bytes: int
    ) -> tuple[Function, list[ProductsDecision]]:
        """Return the function with merged products, and the decision on each group."""
        needs = needs_of(f.body)
        groups = product_groups(f, program.constants, needs)
        hoist = self.options.hoist
        weighed = [
            rank_grouping(g, self.device, program.env, constant_bytes, hoist) for g in groups
        ]
        wanted = [n for n, candidates in enumerate(weighed) if candidates[0].value]
        wanted.sort(key=lambda n: saved_us(weighed[n]), reverse=True)
        order, broken = order_groups(needs, [groups[n].places for n in wanted])
        for n in (wanted[g] for g in broken):
            weighed[n] = refuse_cyclic_group(weighed[n])
        taken = {groups[n].places[0]: groups[n] for n in set(wanted) - {wanted[g] for g in broken}}
        body = _merge_groups(f, order, taken, program) if taken else f.body
        decisions = [
            ProductsDecision(
                f.name,
                g.kind.weight.name,
                g.generation,
                tuple(p.result.name for p in g.products),
                candidates[0].label,
                candidates,
            )
            for g, candidates in zip(groups, weighed, strict=True)
        ]
        return (replace(f, body=body) if taken else f), decisions


def _merge_groups(
    f: Function, order: Order, taken: Mapping[int, ProductGroup], program: Program
) -> tuple[Binding, ...]:
    """Order the body and merge each group, identified by its first position, into one product."""
    names = {v.name for b in f.body for v in b.vars} | {p.name for p in f.params}
    names |= program.constants.keys()
    body: list[Binding] = []
    for places in order:
        group = taken.get(places[0]) if len(places) > 1 else None
        if group is None:
            body += [f.body[n] for n in places]
            continue
        own = [_origin(f, p.places) for p in group.products]
        for binding in _merge_products(group, names, _origin(f, places), own):
            body.append(binding)
            names.add(binding.var.name)
    return tuple(body)


def _origin(f: Function, places: Iterable[int]) -> frozenset[str]:
    return frozenset[str]().union(*(f.body[n].origin for n in places))


def _merge_products(
    group: ProductGroup,
    names: Collection[str],
    shared: frozenset[str],
    own: Sequence[frozenset[str]],
) -> Iterator[Binding]:
    """Yield one product of all rows: its concatenated operands, the product, and its slices.

    Operands that differ in more than the number of rows are reshaped to matrices before and after.
    `own` are the origins of the products, `shared` all of them: the concatenation belongs to no
    operator.
    """
    kind, products = group.kind, group.products
    lefts, results = [p.left for p in products], [p.result for p in products]
    if len({_type(v).dims[1:] for v in lefts}) > 1 or len(_type(lefts[0]).dims) < 2:
        for n, p in enumerate(products):
            lefts[n] = _matrix_var(p.left, p.rows, fresh(f"{p.result.name}.rows", names))
            results[n] = _matrix_var(p.result, p.rows, fresh(f"{p.result.name}.matrix", names))
            yield Binding((lefts[n],), _reshape(p.left, lefts[n]), own[n])
    operands = _stacked_var(lefts, fresh(f"{kind.weight.name}.inputs", names))
    merged = _stacked_var(results, fresh(f"{kind.weight.name}.products", names))
    yield Binding((operands,), OpCall("Concat", tuple(lefts), (("axis", 0),)))
    bare = (
        merged if kind.added is None else replace(merged, name=fresh(f"{merged.name}.bare", names))
    )
    bias = () if kind.bias is None else (kind.bias,)
    yield Binding((bare,), OpCall(kind.op, (operands, kind.weight, *bias), kind.attrs), shared)
    if kind.added is not None:
        yield Binding((merged,), OpCall("Add", (bare, kind.added)), shared)
    begin: Dim = 0
    for p, part, origin in zip(products, results, own, strict=True):
        yield Binding((part,), _slice_rows(merged, part, begin), origin)
        begin = simplify(begin + _type(part).dims[0])
        if part != p.result:
            yield Binding((p.result,), _reshape(part, p.result), origin)


def _type(value: Var) -> Tensor:
    return value.tensor


def _stacked_var(parts: Sequence[Var], name: str) -> Var:
    """Return a variable for all rows of some values."""
    first = _type(parts[0])
    rows = simplify(sum((_type(v).dims[0] for v in parts[1:]), first.dims[0]))
    return Var(name, replace(first, shape=(rows, *first.dims[1:])))


def _matrix_var(value: Var, rows: Dim, name: str) -> Var:
    """Return a variable for a value reshaped to a matrix."""
    return Var(name, replace(_type(value), shape=(rows, _type(value).dims[-1])))


def _slice_rows(stacked: Var, part: Var, begin: Dim) -> Expr:
    """Slice the rows of a part, from `begin` on."""
    extent = _type(part).dims
    trailing = len(extent) - 1
    cut = (
        ("begin", (begin, *(0,) * trailing)),
        ("step", (1,) * (trailing + 1)),
        ("extent", extent),
    )
    return OpCall("Slice", (stacked,), cut)


def _reshape(source: Var, target: Var) -> Expr:
    return OpCall("Reshape", (source,), (("shape", _type(target).dims),))


@dataclass(frozen=True, slots=True)
class RowProduct:
    """A product in a loop's body, by position: a row of a loop-invariant value times a matrix.

    `at` is the row's number; `rows` is the value in the body; `operand` and `weight` are the
    operands outside of the loop.
    """

    place: int
    at: Var
    rows: Var
    operand: Var
    weight: Var


@compiler_pass("hoist-row-products", paper="Appleyard et al. 2016, section 3.1.1")
@dataclass(frozen=True, slots=True)
class HoistRowProducts:
    """A pass that hoists input projections out of loops, for one device."""

    device: Device
    options: Options = Options()

    def __call__(self, program: Program) -> Program:
        """Hoist row products where the model predicts a gain.

        After: no loop multiplies its rows by a loop-invariant matrix, where hoisting is modelled to
        be faster. The decisions list each such product.
        """
        functions = {f.name: f for f in program.functions}
        calls = Counter(n for f in program.functions for b in f.body for n in b.calls)
        weighed: list[ProductsDecision] = []
        for name in functions:
            body: list[Binding] = []
            for binding in functions[name].body:
                loop = binding.expr
                if isinstance(loop, Loop) and calls[loop.body] == 1:
                    inside = functions[loop.body]
                    taken, decided = self._decided(loop, functions[name], inside, program)
                    weighed += decided
                    *before, functions[inside.name] = _hoist(taken, inside, program)
                    hoisted = tuple(b.var for b in before)
                    binding = replace(binding, expr=replace(loop, args=(*loop.args, *hoisted)))
                    body += before
                body.append(binding)
            functions[name] = replace(functions[name], body=tuple(body))
        if not weighed:
            return program
        left = (*program.decisions.products, *weighed)
        decisions = replace(program.decisions, products=left)
        return replace(program, functions=tuple(functions.values()), decisions=decisions)

    def _decided(
        self, loop: Loop, around: Function, inside: Function, program: Program
    ) -> tuple[list[RowProduct], list[ProductsDecision]]:
        """Return the products to hoist before a loop, and the decision on each."""
        trips = trips_of(loop, around, inside, program)
        if trips is None:
            return [], []
        read = {v.name for b in inside.body for v in b.reads} & program.constants.keys()
        constant_bytes = sum(program.constants[n].nbytes for n in read)
        taken, decided = [], []
        for candidate in _row_products(loop, inside, trips, program):
            product = inside.body[candidate.place]
            rows = Trips(trips, candidate.operand.tensor, candidate.weight.tensor)
            ranked = rank_row_hoisting(
                rows, self.device, program.env, constant_bytes, self.options.hoist
            )
            label = ranked[0].label
            names, weight = (product.var.name,), candidate.weight.name
            decided.append(ProductsDecision(inside.name, weight, 0, names, label, ranked))
            taken += [candidate] if label == TOGETHER else []
        return taken, decided


def _row_products(
    loop: Loop, inside: Function, trips: Dim, program: Program
) -> Iterator[RowProduct]:
    """Yield products of a row, in the order of the body."""
    invariants = dict(zip((p.name for p in inside.params[COUNTERS + len(loop.state) :]), loop.args))
    rows = {b.var.name: b.reads for b in inside.body if _is_row(b)}
    for place, binding in enumerate(inside.body):
        if not _is_op(binding, "MatMul") or binding.reads[0].name not in rows:
            continue
        (value, at), weight = rows[binding.reads[0].name], binding.reads[1]
        matrix = weight if weight.name in program.constants else invariants.get(weight.name)
        if value.name not in invariants or matrix is None:
            continue
        operand, kind = invariants[value.name], matrix.type
        is_matrix = isinstance(kind, Tensor) and kind.is_known and len(kind.dims) == 2
        if (
            is_matrix
            and len(operand.tensor.dims) > 1
            and program.env.equal(operand.tensor.dims[0], trips)
        ):
            yield RowProduct(place, at, value, operand, matrix)


def _is_op(binding: Binding, op: str) -> bool:
    return isinstance(binding.expr, OpCall) and binding.expr.op == op


def _is_row(binding: Binding) -> bool:
    """Return True if a binding gathers one row of a value."""
    if not _is_op(binding, "Gather"):
        return False
    (value, at), attrs = binding.reads, dict(binding.expr.attrs)  # type: ignore[union-attr]
    return attrs.get("axis", 0) == 0 and at.tensor.dims == () and value.tensor.is_known


def _hoist(
    taken: list[RowProduct], inside: Function, program: Program
) -> tuple[*tuple[Binding, ...], Function]:
    """Return the products of all rows, followed by the body that reads their results."""
    names = {v.name for f in program.functions for b in f.body for v in b.vars}
    names |= {p.name for f in program.functions for p in f.params} | program.constants.keys()
    before, body, params = [], list(inside.body), list(inside.params)
    for row_product in taken:
        old = body[row_product.place]
        operand, columns = row_product.operand.tensor, row_product.weight.tensor.dims[1]
        kind = replace(operand, shape=(*operand.dims[:-1], columns))
        every = Var(fresh(f"{old.var.name}.rows", names), kind)
        param = Var(fresh(f"{inside.name}.{every.name}", names), kind)
        names |= {every.name, param.name}
        product = OpCall("MatMul", (row_product.operand, row_product.weight))
        before.append(Binding((every,), product, old.origin))
        row = OpCall("Gather", (param, row_product.at), (("axis", 0),))
        body[row_product.place] = replace(old, expr=row)
        params.append(param)
    return *before, replace(inside, params=tuple(params), body=tuple(body))
