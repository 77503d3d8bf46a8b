"""Stacked rows of a loop in the memory of rows that the loop is the last to read.

    h, ys = loop body(h; xs)                    ->   h, ys = loop body(h, xs)
    in it  x = xs[t]; y = f(h, x)                    in it  x = xs[t]; y = f(h, x); xs[t] = y

So the products that a recurrent layer saves for its backward pass take the memory of their addends,
and their adjoints take the memory of the products. Each row is copied to its place. Sums over rows
that were stacked last trip first then run in memory order, which rounds differently.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from explorer.ir.affine import affine, var
from explorer.ir.calls import KernelCall, Loop, MatchCast, OpCall, ShapeOf, Var, View
from explorer.ir.dims import Dim, simplify
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.program import Binding, Function, Program, fresh
from explorer.ir.types import Tensor
from explorer.ops import RECORDS
from explorer.passes.registry import compiler_pass
from explorer.transforms.counted_loops import COUNTERS, trips_of


@dataclass(frozen=True, slots=True)
class Place:
    """A loop's argument of which a trip reads only the row `at`, and the result that may lie there.

    `arg` and `scan` are their numbers. `turned` is True if the trips go from the last row to the
    first.
    """

    arg: int
    scan: int
    at: Var
    turned: bool


@compiler_pass(
    "stack-in-place", paper="Chen et al. 2016, Training deep nets with sublinear memory cost"
)
def stack_in_place(program: Program) -> Program:
    """Stack rows in the memory of rows that are read.

    After: a loop stacks rows in place of an argument's rows, if it is the last to read them.
    """
    calls = Counter(n for f in program.functions for b in f.body for n in b.calls)
    for name in [f.name for f in program.functions]:
        n = 0
        while n < len(program.function(name).body):
            binding = program.function(name).body[n]
            loop = binding.expr
            if isinstance(loop, Loop) and calls[loop.body] == 1 and not loop.padded:
                place = _place(binding, loop, program.function(name), program)
                if place is not None:
                    program = _InPlaceLoop(program, name, binding, loop, place).rewrite()
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
    """Return True if no shape within a trip depends on the run.

    Other loops run in Python, which copies changed values.
    """
    types = [v.type for b in inside.body for v in b.vars]
    has_shapes = all(isinstance(t, Tensor) and t.is_known for t in types)
    casts = any(isinstance(b.expr, MatchCast) for b in inside.body)
    called = {n for b in inside.body for n in b.calls} - {inside.name}
    return (
        has_shapes and not casts and all(_is_static(program.function(n), program) for n in called)
    )


def _is_free(arg: Var, binding: Binding, around: Function, program: Program) -> bool:
    """Return True if a value is made here, in memory of its own, and read by this loop alone."""
    has_memory = any(arg in b.vars and _has_memory(b) for b in around.body)
    if not has_memory or arg in around.outputs or binding.reads.count(arg) > 1:
        return False
    return [b for b in around.body if _reads(b, arg, program)] == [binding]


def _has_memory(binding: Binding) -> bool:
    """Return True if a binding's result is no view of another value."""
    match binding.expr:
        case OpCall(op):
            return op in RECORDS and RECORDS[op].family != "layout"
        case KernelCall() | Loop():
            return True
    return False


def _reads(binding: Binding, value: Var, program: Program) -> bool:
    """Return True if a binding reads a value; a loop's body may not read all its arguments."""
    loop = binding.expr
    if not isinstance(loop, Loop) or value in (*loop.state, loop.trip, loop.cond):
        return value in binding.reads
    inside = program.function(loop.body)
    params = inside.params[COUNTERS + len(loop.state) :]
    own_params = {p for p, a in zip(params, loop.args, strict=True) if a == value}
    return any(own_params & {*b.reads} for b in inside.body) or bool(own_params & {*inside.outputs})


def _row_number(param: Var, inside: Function) -> Var | None:
    """Return the number of the only row of a parameter that a trip reads."""
    readers = [b.expr for b in inside.body if param in b.reads]
    numbers: set[Var] = set()
    for expr in readers:
        match expr:
            case OpCall("Gather", (Var() as rows, Var() as at)) as call if rows == param:
                if call.attr("axis", 0) != 0 or at.tensor.dims:
                    return None
                numbers.add(at)
            case _:
                return None
    return numbers.pop() if len(numbers) == 1 and param not in inside.outputs else None


def _counts_down(at: Var, loop: Loop, inside: Function, around: Function, trips: Dim) -> bool:
    """Return True if a number is the last trip's minus the trip's."""
    match next((b.expr for b in inside.body if at in b.vars), None):
        case OpCall("Sub", (Var() as last, trip)) if trip == inside.params[0]:
            pass
        case _:
            return False
    arguments = dict(zip(inside.params[COUNTERS + len(loop.state) :], loop.args, strict=True))
    match next((b.expr for b in around.body if b.vars == (arguments.get(last),)), None):
        case ShapeOf((dim,), 0):
            return simplify(dim - trips + 1) == 0
    return False


class _InPlaceLoop:
    """A loop whose stacked rows become a state that begins as the rows it reads."""

    def __init__(self, program: Program, name: str, binding: Binding, loop: Loop, place: Place):
        """Collect the names in use."""
        self.program, self.binding, self.loop, self.place = program, binding, loop, place
        self.around, self.inside = program.function(name), program.function(loop.body)
        self.taken = {v.name for f in program.functions for b in f.body for v in b.vars}
        self.taken |= {p.name for f in program.functions for p in f.params}
        self.taken |= program.constants.keys()

    def rewrite(self) -> Program:
        """Return the program with the new body and the new call."""
        bodies = ((b,) if b is not self.binding else self.bindings() for b in self.around.body)
        around = replace(self.around, body=tuple(b for body in bodies for b in body))
        return self.program.with_function(self.body()).with_function(around)

    def body(self) -> Function:
        """Return the body, which writes the row over the one it has read."""
        inside, states, place = self.inside, len(self.loop.state), self.place
        params = list(inside.params)
        rows = params.pop(COUNTERS + states + place.arg)
        params.insert(COUNTERS + states, rows)
        outputs = list(inside.outputs)
        row = outputs.pop(len(outputs) - self.loop.scans + place.scan)
        origin = next((b.origin for b in inside.body if row in b.vars), self.binding.origin)
        expanded_row = self.var(f"{row.name}.row", replace(row.tensor, shape=(1, *row.tensor.dims)))
        after = self.var(f"{rows.name}.after", rows.tensor)
        call = OpCall("SetSlice", (rows, expanded_row, place.at), (("axes", (0,)),))
        more = Binding((expanded_row,), View(row), origin), Binding((after,), call, origin)
        outputs.insert(1 + states, after)
        body = (*inside.body, *more)
        return replace(inside, params=tuple(params), body=body, outputs=tuple(outputs))

    def bindings(self) -> tuple[Binding, ...]:
        """Return the loop, and its rows in the order of the trips."""
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
        new_loop = replace(
            loop, state=state, args=tuple(args), scans=loop.scans - 1, rows=tuple(rows)
        )
        loop_binding = replace(self.binding, vars=tuple(vars), expr=new_loop)
        if not place.turned:
            return (loop_binding,)
        origin = self.binding.origin
        turned = KernelCall(_reversal_kernel(stacked.tensor, origin), (result,))
        return loop_binding, Binding((stacked,), turned, origin)

    def var(self, wish: str, type: Tensor) -> Var:
        name = fresh(wish, self.taken)
        self.taken.add(name)
        return Var(name, type)


def _reversal_kernel(type: Tensor, origin: frozenset[str]) -> Kernel:
    """Return a kernel that reverses rows."""
    axes = tuple(Axis(f"i{d}", n) for d, n in enumerate(type.dims))
    index = (affine({"i0": -1}, type.dims[0] - 1), *(var(a.name) for a in axes[1:]))
    specs = tuple(TensorSpec(n, type.dims, type.element) for n in ("x", "y"))
    compute = Compute("y", axes, Read("x", index), origin=origin)
    return Kernel("turned", specs, (compute,), ("x",), ("y",))
