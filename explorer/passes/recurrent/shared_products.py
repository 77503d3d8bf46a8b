"""Products by one constant done as one product: input projections of recurrent layers are hoisted
over time.

A layer that is unrolled over time multiplies each step's input by the same matrix. No such product
needs another, so they are one product of all rows, which reads the matrix once; the steps then
read its rows (Appleyard, Kocisky and Blunsom 2016, Optimizing performance of recurrent neural
networks on GPUs, section 3.1.1). What is left of the layers is done layer by layer, so that the
matrix of a layer's state stays where it was read last.
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
from explorer.passes.pipeline.ranges import OneOf, Whole, check, option
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.recurrent.binding_order import AS_WRITTEN, ORDERS, ordered
from explorer.passes.recurrent.dataflow import Order, in_turn, needs_of
from explorer.passes.recurrent.product_groups import ProductGroup, product_groups
from explorer.passes.recurrent.product_policy import TOGETHER, needed_by_itself, saved_us, weigh

MOST_UNROLLED_TRIPS = 1 << 16  # that can be asked for; chosen


@dataclass(frozen=True, slots=True)
class Options:
    """How recurrent layers are done: those of one operator, those unrolled over time, and loops.

    hoist   "auto": products by one constant become one, and those of a loop's rows are done before
            it, where the model says so; "on": wherever they can; "off": nowhere
    order   "as written", "by layer", "by time step", "diagonal": in which bindings run; "auto": by
            layer where products became one, else as written
    split   "auto": a loop over layers becomes a loop for each layer where the model says so; "on":
            wherever it can; "off": nowhere
    unroll  an RNN, LSTM or GRU of at most so many steps is unrolled; a longer one, or one whose
            length is a symbol, is a loop
    """

    hoist: str = option("auto", OneOf(("auto", "on", "off")), "products by one constant become one")
    order: str = option("auto", OneOf(("auto", AS_WRITTEN, *ORDERS)), "in which order bindings run")
    split: str = option(
        "auto", OneOf(("auto", "on", "off")), "a loop over layers becomes one for each"
    )
    unroll: int = option(
        UNROLL, Whole(0, MOST_UNROLLED_TRIPS), "steps up to which a layer is unrolled"
    )

    def __post_init__(self) -> None:
        check("recurrent", self)


@compiler_pass("share-products", paper="Appleyard et al. 2016, section 3.1.1; Rammer, section 5")
@dataclass(frozen=True, slots=True)
class ShareProducts:
    """Input projections hoisted over time, and the order of layers and steps, for one device."""

    device: Device
    options: Options = Options()

    def __call__(self, program: Program) -> Program:
        """After: products by one constant that do not need each other are one product of all their
        rows, where the model says that this is faster.

        `a = x @ w; b = y @ w` becomes `t = concat(x, y); u = t @ w; a, b = split(u)`. Each group
        that was weighed stands in the decisions, and the order of the main function.
        """
        size = sum(c.array.nbytes for c in program.constants.values())
        weighed: list[ProductsDecision] = []
        functions = []
        for f in program.functions:
            shared, decisions = self._function(f, program, size)
            weighed += decisions
            order = self._order(decisions)
            body = ordered(shared.body, program.constants, order)
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
        """The function with shared products, and what was decided of each group."""
        needs = needs_of(f.body)
        groups = product_groups(f, program.constants, needs)
        hoist = self.options.hoist
        weighed = [weigh(g, self.device, program.env, constant_bytes, hoist) for g in groups]
        wanted = [n for n, found in enumerate(weighed) if found[0].value]
        wanted.sort(key=lambda n: saved_us(weighed[n]), reverse=True)
        order, broken = in_turn(needs, [groups[n].places for n in wanted])
        for n in (wanted[g] for g in broken):
            weighed[n] = needed_by_itself(weighed[n])
        taken = {groups[n].places[0]: groups[n] for n in set(wanted) - {wanted[g] for g in broken}}
        body = _rewritten(f, order, taken, program) if taken else f.body
        decisions = [
            ProductsDecision(
                f.name,
                g.kind.weight.name,
                g.generation,
                tuple(p.result.name for p in g.products),
                found[0].label,
                found,
            )
            for g, found in zip(groups, weighed, strict=True)
        ]
        return (replace(f, body=body) if taken else f), decisions


def _rewritten(
    f: Function, order: Order, taken: Mapping[int, ProductGroup], program: Program
) -> tuple[Binding, ...]:
    """The body in an order in which each group, known by its first place, is one product."""
    names = {v.name for b in f.body for v in b.vars} | {p.name for p in f.params}
    names |= program.constants.keys()
    body: list[Binding] = []
    for places in order:
        group = taken.get(places[0]) if len(places) > 1 else None
        if group is None:
            body += [f.body[n] for n in places]
            continue
        own = [_origin(f, p.places) for p in group.products]
        for binding in _together(group, names, _origin(f, places), own):
            body.append(binding)
            names.add(binding.var.name)
    return tuple(body)


def _origin(f: Function, places: Iterable[int]) -> frozenset[str]:
    return frozenset[str]().union(*(f.body[n].origin for n in places))


def _together(
    group: ProductGroup,
    names: Collection[str],
    shared: frozenset[str],
    own: Sequence[frozenset[str]],
) -> Iterator[Binding]:
    """One product of all rows, as bindings: what is multiplied, side by side; the product; its
    rows. What is not of one shape but for the number of rows is made a matrix before and after.

    `own` are the origins of the products, `shared` all of these: what only brings operands together
    is of no operator.
    """
    kind, products = group.kind, group.products
    lefts, results = [p.left for p in products], [p.result for p in products]
    if len({_type(v).dims[1:] for v in lefts}) > 1 or len(_type(lefts[0]).dims) < 2:
        for n, p in enumerate(products):
            lefts[n] = _matrix(p.left, p.rows, fresh(f"{p.result.name}.rows", names))
            results[n] = _matrix(p.result, p.rows, fresh(f"{p.result.name}.matrix", names))
            yield Binding((lefts[n],), _reshape(p.left, lefts[n]), own[n])
    whole = _stacked(lefts, fresh(f"{kind.weight.name}.inputs", names))
    made = _stacked(results, fresh(f"{kind.weight.name}.products", names))
    yield Binding((whole,), OpCall("Concat", tuple(lefts), (("axis", 0),)))
    bare = made if kind.added is None else replace(made, name=fresh(f"{made.name}.bare", names))
    bias = () if kind.bias is None else (kind.bias,)
    yield Binding((bare,), OpCall(kind.op, (whole, kind.weight, *bias), kind.attrs), shared)
    if kind.added is not None:
        yield Binding((made,), OpCall("Add", (bare, kind.added)), shared)
    begin: Dim = 0
    for p, part, origin in zip(products, results, own, strict=True):
        yield Binding((part,), _rows(made, part, begin), origin)
        begin = simplify(begin + _type(part).dims[0])
        if part != p.result:
            yield Binding((p.result,), _reshape(part, p.result), origin)


def _type(value: Var) -> Tensor:
    return value.tensor


def _stacked(parts: Sequence[Var], name: str) -> Var:
    """All rows of some values as one."""
    first = _type(parts[0])
    rows = simplify(sum((_type(v).dims[0] for v in parts[1:]), first.dims[0]))
    return Var(name, replace(first, shape=(rows, *first.dims[1:])))


def _matrix(value: Var, rows: Dim, name: str) -> Var:
    """What a value is as a matrix."""
    return Var(name, replace(_type(value), shape=(rows, _type(value).dims[-1])))


def _rows(whole: Var, part: Var, begin: Dim) -> Expr:
    """The rows of a part, from `begin` on."""
    extent = _type(part).dims
    rest = len(extent) - 1
    cut = (("begin", (begin, *(0,) * rest)), ("step", (1,) * (rest + 1)), ("extent", extent))
    return OpCall("Slice", (whole,), cut)


def _reshape(source: Var, target: Var) -> Expr:
    return OpCall("Reshape", (source,), (("shape", _type(target).dims),))
