"""Matrix products by one constant, merged: input projections hoisted over time.

A layer unrolled over time multiplies each step's input by the same matrix. These products are
independent, so they become one product of all rows, which reads the matrix once; the steps then
read its rows (Appleyard, Kocisky and Blunsom 2016, Optimizing performance of recurrent neural
networks on GPUs, section 3.1.1). The rest of the layers runs layer by layer, so that the matrix of
a layer's state stays in cache between reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.calls import Expr, OpCall, Var
from explorer.ir.decisions.algorithms import ProductsDecision
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import Dim, simplify
from explorer.ir.types import Tensor
from explorer.ops.lowering import UNROLL
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.ranges import Integer, OneOf, check, option
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.recurrent.binding_order import AS_WRITTEN, ORDERS, order_bindings
from explorer.passes.recurrent.dataflow import Order, needs_of, order_groups
from explorer.passes.recurrent.product_groups import ProductGroup, product_groups
from explorer.passes.recurrent.product_policy import (
    TOGETHER,
    rank_grouping,
    refuse_cyclic_group,
    saved_us,
)

MOST_UNROLLED_TRIPS = 1 << 16  # largest value of the option; chosen


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
        size = sum(c.array.nbytes for c in program.constants.values())
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
