"""Rows that a loop stacks lie where it has read rows that nobody reads again.

h, ys = loop body(h; xs)                    ->   h, ys = loop body(h, xs)
in it  x = xs[t]; y = f(h, x)                    in it  x = xs[t]; y = f(h, x); xs[t] = y

So the products that a recurrent layer keeps for its backward pass take the memory of what is added
to them, and their adjoints take the memory of the products. A row is copied to its place, and sums
over rows that were stacked from the last one on go along memory, which rounds otherwise.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from explorer.ir.affine import affine, var
from explorer.ir.calls import KernelCall, Loop, MatchCast, OpCall, ShapeOf, Var, View
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import Dim, simplify
from explorer.ir.types import Tensor
from explorer.ops import RECORDS
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.recurrent.row_products import COUNTERS, trips_of


@dataclass(frozen=True, slots=True)
class Place:
    """A loop's argument, by its number, of which a trip reads the row `at` and nothing else; the
    stacked result, by its number, that may lie there. `turned`: the trips go from the last row to
    the first.
    """

    arg: int
    scan: int
    at: Var
    turned: bool


@compiler_pass(
    "stack-in-place", paper="Chen et al. 2016, Training deep nets with sublinear memory cost"
)
def stack_in_place(program: Program) -> Program:
    """After: a loop stacks rows in the memory of such rows as it reads, where it is the last to
    read them.
    """
    calls = Counter(n for f in program.functions for b in f.body for n in b.calls)
    for name in [f.name for f in program.functions]:
        n = 0
        while n < len(program.function(name).body):
            binding = program.function(name).body[n]
            loop = binding.expr
            if isinstance(loop, Loop) and calls[loop.body] == 1 and not loop.padded:
                found = _place(binding, loop, program.function(name), program)
                if found is not None:
                    program = _Moved(program, name, binding, loop, found).done()
                    continue
            n += 1
    return program


def _place(binding: Binding, loop: Loop, around: Function, program: Program) -> Place | None:
    inside = program.function(loop.body)
    trips = trips_of(loop, around, inside, program)
    if trips is None or not _is_static(inside, program):
        return None
    first = len(binding.vars) - loop.scans
    scans = [v for v in binding.vars[first:] if v not in around.outputs]
    for n, arg in enumerate(loop.args):
        scan = next((v for v in scans if v.type == arg.type), None)
        param = inside.params[COUNTERS + len(loop.state) + n]
        if scan is None or not _is_free(arg, binding, around, program):
            continue
        at = _row_number(param, inside)
        if at is None or not program.env.equal(arg.tensor.dims[0], trips):
            continue
        turned = at != inside.params[0]
        if not turned or _counts_down(at, loop, inside, around, trips):
            return Place(n, binding.vars.index(scan) - first, at, turned)
    return None


def _is_static(inside: Function, program: Program) -> bool:
    """Whether no run decides a shape within a trip: else Python goes through it, and copies what
    changes.
    """
    types = [v.type for b in inside.body for v in b.vars]
    known = all(isinstance(t, Tensor) and t.is_known for t in types)
    casts = any(isinstance(b.expr, MatchCast) for b in inside.body)
    called = {n for b in inside.body for n in b.calls} - {inside.name}
    return known and not casts and all(_is_static(program.function(n), program) for n in called)


def _is_free(arg: Var, binding: Binding, around: Function, program: Program) -> bool:
    """Whether a value is made here, in memory of its own, and read by this loop alone."""
    made = any(arg in b.vars and _has_memory(b) for b in around.body)
    if not made or arg in around.outputs or binding.reads.count(arg) > 1:
        return False
    return [b for b in around.body if _reads(b, arg, program)] == [binding]


def _has_memory(binding: Binding) -> bool:
    """Whether what a binding makes is no view of another value."""
    match binding.expr:
        case OpCall(op):
            return op in RECORDS and RECORDS[op].family != "layout"
        case KernelCall() | Loop():
            return True
    return False


def _reads(binding: Binding, value: Var, program: Program) -> bool:
    """Whether a binding reads a value: a loop is given some that its body does not."""
    loop = binding.expr
    if not isinstance(loop, Loop) or value in (*loop.state, loop.trip, loop.cond):
        return value in binding.reads
    inside = program.function(loop.body)
    params = inside.params[COUNTERS + len(loop.state) :]
    given = {p for p, a in zip(params, loop.args, strict=True) if a == value}
    return any(given & {*b.reads} for b in inside.body) or bool(given & {*inside.outputs})


def _row_number(param: Var, inside: Function) -> Var | None:
    """The number of the one row of a parameter that a trip reads."""
    readers = [b.expr for b in inside.body if param in b.reads]
    found: set[Var] = set()
    for expr in readers:
        match expr:
            case OpCall("Gather", (Var() as rows, Var() as at)) as call if rows == param:
                if call.attr("axis", 0) != 0 or at.tensor.dims:
                    return None
                found.add(at)
            case _:
                return None
    return found.pop() if len(found) == 1 and param not in inside.outputs else None


def _counts_down(at: Var, loop: Loop, inside: Function, around: Function, trips: Dim) -> bool:
    """Whether a number is that of the last trip less that of the trip."""
    match next((b.expr for b in inside.body if at in b.vars), None):
        case OpCall("Sub", (Var() as last, trip)) if trip == inside.params[0]:
            pass
        case _:
            return False
    given = dict(zip(inside.params[COUNTERS + len(loop.state) :], loop.args, strict=True))
    match next((b.expr for b in around.body if b.vars == (given.get(last),)), None):
        case ShapeOf((dim,), 0):
            return simplify(dim - trips + 1) == 0
    return False


class _Moved:
    """A loop whose stacked rows become a state that begins as the rows that it reads."""

    def __init__(self, program: Program, name: str, binding: Binding, loop: Loop, place: Place):
        self.program, self.binding, self.loop, self.place = program, binding, loop, place
        self.around, self.inside = program.function(name), program.function(loop.body)
        self.taken = {v.name for f in program.functions for b in f.body for v in b.vars}
        self.taken |= {p.name for f in program.functions for p in f.params}
        self.taken |= program.constants.keys()

    def done(self) -> Program:
        bodies = ((b,) if b is not self.binding else self.bindings() for b in self.around.body)
        around = replace(self.around, body=tuple(b for body in bodies for b in body))
        return self.program.with_function(self.body()).with_function(around)

    def body(self) -> Function:
        """The body, which writes the row over the one that it has read."""
        inside, states, place = self.inside, len(self.loop.state), self.place
        params = list(inside.params)
        rows = params.pop(COUNTERS + states + place.arg)
        params.insert(COUNTERS + states, rows)
        outputs = list(inside.outputs)
        row = outputs.pop(len(outputs) - self.loop.scans + place.scan)
        origin = next((b.origin for b in inside.body if row in b.vars), self.binding.origin)
        one = self.var(f"{row.name}.row", replace(row.tensor, shape=(1, *row.tensor.dims)))
        after = self.var(f"{rows.name}.after", rows.tensor)
        call = OpCall("SetSlice", (rows, one, place.at), (("axes", (0,)),))
        more = Binding((one,), View(row), origin), Binding((after,), call, origin)
        outputs.insert(1 + states, after)
        body = (*inside.body, *more)
        return replace(inside, params=tuple(params), body=body, outputs=tuple(outputs))

    def bindings(self) -> tuple[Binding, ...]:
        """The loop, and its rows in the order of the trips."""
        loop, place, states = self.loop, self.place, len(self.loop.state)
        vars, args, rows = list(self.binding.vars), list(loop.args), list(loop.rows)
        stacked = vars.pop(len(vars) - loop.scans + place.scan)
        if rows:
            del rows[place.scan]
        result = stacked
        if place.turned:
            result = self.var(f"{stacked.name}.turned", stacked.tensor)
        vars.insert(states, result)
        state = (*loop.state, args.pop(place.arg))
        made = replace(loop, state=state, args=tuple(args), scans=loop.scans - 1, rows=tuple(rows))
        whole = replace(self.binding, vars=tuple(vars), expr=made)
        if not place.turned:
            return (whole,)
        origin = self.binding.origin
        turned = KernelCall(_turned(stacked.tensor, origin), (result,))
        return whole, Binding((stacked,), turned, origin)

    def var(self, wish: str, type: Tensor) -> Var:
        name = fresh(wish, self.taken)
        self.taken.add(name)
        return Var(name, type)


def _turned(type: Tensor, origin: frozenset[str]) -> Kernel:
    """Rows from the last to the first."""
    axes = tuple(Axis(f"i{d}", n) for d, n in enumerate(type.dims))
    index = (affine({"i0": -1}, type.dims[0] - 1), *(var(a.name) for a in axes[1:]))
    specs = tuple(TensorSpec(n, type.dims, type.element) for n in ("x", "y"))
    compute = Compute("y", axes, Read("x", index), origin=origin)
    return Kernel("turned", specs, (compute,), ("x",), ("y",))
