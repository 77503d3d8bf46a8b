"""Input projections of loops, hoisted before the loop: one product of all rows.

    x_t = gather(x, t); y_t = x_t @ w   in a loop   ->   y = x @ w   before it, and in it
    y_t = gather(y, t)

`shared_products` does this for unrolled graphs (Appleyard, Kocisky and Blunsom 2016, section
3.1.1): a recurrent layer reads the matrix of its inputs once instead of in each trip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.calls import Loop, OpCall, ShapeOf, Var
from explorer.ir.decisions.algorithms import ProductsDecision
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import Tensor
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.recurrent.product_policy import TOGETHER, Trips, rank_row_hoisting
from explorer.passes.recurrent.shared_products import Options

COUNTERS = 2  # parameters of a body before its state: the trip and the continue flag


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
        constant_bytes = sum(program.constants[n].array.nbytes for n in read)
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


def trips_of(loop: Loop, around: Function, inside: Function, program: Program) -> Dim | None:
    """Return a loop's trip count if it is a number or an extent and no data ends the loop."""
    same = {b.var.name: b.reads[0].name for b in inside.body if _is_op(b, "Identity")}
    going = same.get(inside.outputs[0].name, inside.outputs[0].name)
    goes_on = program.constants.get(going)
    ends = going != inside.params[1].name and not (goes_on and goes_on.array.all())
    if loop.cond is not None or loop.trip is None or ends:
        return None
    constant = program.constants.get(loop.trip.name)
    if constant is not None:
        return int(constant.array.item())
    for binding in around.body:
        if loop.trip in binding.vars and isinstance(binding.expr, ShapeOf):
            return binding.expr.dims[0]
    return None


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
