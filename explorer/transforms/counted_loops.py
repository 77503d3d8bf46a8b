"""Trip counts of loops: of while loops whose condition compares a counter with a limit, and known.

    i = 0; while i < n: x = f(x, i); i = i + 1   ->   for i in range(max(0, n)): x = f(x, i)

The instruction that counts takes over the scalars of control flow: no kernel adds or compares, and
no unit waits for another's answer (Cocktailer; induction variables are Aho, Lam, Sethi and Ullman
2006, section 9.1). Other exit conditions of the loop stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.calls import Loop, OpCall, ShapeOf, Var
from explorer.ir.dims import Dim
from explorer.ir.program import Binding, Constant, Function, Program, fresh
from explorer.ir.types import Tensor
from explorer.passes.registry import compiler_pass
from explorer.transforms.simplify.redundancy import record_dropped
from explorer.transforms.simplify.substitution import with_reads

COUNTERS = 2  # parameters of a body before its state: the trip and the continue flag
INDEX = Tensor((), "int64")


@compiler_pass("count-loops", paper="Zhang et al. 2023, Cocktailer; Aho et al. 2006, section 9.1")
def count_loops(program: Program) -> Program:
    """Turn while loops with an induction variable into counted loops.

    After: every loop has a trip count if its condition compares an int64 that it increments by one
    with a loop-invariant int64.
    """
    counting = _Counting(program)
    functions = {f.name: f for f in program.functions}
    calls = [n for f in program.functions for b in f.body for n in b.calls]
    for name in functions:
        body: list[Binding] = []
        for binding in functions[name].body:
            counted = None
            if isinstance(binding.expr, Loop) and calls.count(binding.expr.body) == 1:
                inside = functions[binding.expr.body]
                counted = counting.find_counted(binding, binding.expr, functions[name], inside)
            if counted is None:
                body.append(binding)
                continue
            body += counted.bindings
            functions[counted.inside.name] = counted.inside
        functions[name] = replace(functions[name], body=tuple(body))
    every = tuple(functions.values())
    if every == program.functions:
        return program
    after = replace(program, functions=every, constants=counting.constants)
    return record_dropped(program, after, "counted by the loop")


@dataclass(frozen=True, slots=True)
class _Counted:
    """A counted loop with the bindings before it, and its body."""

    bindings: tuple[Binding, ...]
    inside: Function


@dataclass(frozen=True, slots=True)
class _Test:
    """`state < limit`, the state by its position, and the other term of the condition, if any."""

    state: int
    limit: Var
    other: Var | None


class _Counting:
    """The search for counted loops in a program, with its new constants and names."""

    def __init__(self, program: Program) -> None:
        """Collect the constants and the names in use."""
        self.constants = dict(program.constants)
        self.names = {v.name for _, b in program.bindings() for v in b.vars}
        self.names |= {p.name for f in program.functions for p in f.params}
        self.names |= self.constants.keys() | {f.name for f in program.functions}

    def find_counted(
        self, binding: Binding, loop: Loop, around: Function, inside: Function
    ) -> _Counted | None:
        """Return the loop with its trip count, or None if it has no such induction variable."""
        if loop.trip is not None or loop.cond is None or loop.scans:
            return None
        invariants = dict(zip((p.name for p in inside.params[-len(loop.args) :]), loop.args))
        invariants = invariants if loop.args else {}
        for test in self.find_tests(loop, inside):
            limit = invariants.get(test.limit.name, test.limit)
            if test.limit.name not in invariants and limit.name not in self.constants:
                continue
            begin = loop.state[test.state]
            first = self.match_first(loop.cond, begin, limit, around, test.other is not None)
            if first is not None:
                return self.build(binding, loop, inside, test, limit, first)
        return None

    def find_tests(self, loop: Loop, inside: Function) -> Iterator[_Test]:
        """Yield the comparisons of an incremented state that the loop's condition implies."""
        exprs = {b.vars[0].name: b.expr for b in inside.body if isinstance(b.expr, OpCall)}
        for term, other in _conjuncts(inside.outputs[0], exprs):
            below = _comparison(exprs.get(term.name))
            if below is None:
                continue
            count, limit = below
            for n in range(len(loop.state)):
                param, after = inside.params[COUNTERS + n], inside.outputs[1 + n]
                if count == after and self.is_increment(exprs.get(after.name), param):
                    yield _Test(n, limit, other)

    def is_increment(self, expr: OpCall | None, param: Var) -> bool:
        """Return True if an expression is an int64 parameter plus one."""
        if expr is None or expr.op != "Add" or param.type != INDEX:
            return False
        left, other = (v for v in expr.args if v is not None)
        return any(a == param and self.is_number(b, 1) for a, b in ((left, other), (other, left)))

    def is_number(self, var: Var, number: int) -> bool:
        """Return True if a value is this constant scalar."""
        constant = self.constants.get(var.name)
        return constant is not None and constant.size == 1 and constant.array.item() == number

    def match_first(
        self, cond: Var, begin: Var, limit: Var, around: Function, several: bool
    ) -> tuple[Var | None] | None:
        """Match the condition of the first trip with that of the others.

        Returns a tuple with the remaining term of the condition, or None if they differ.
        """
        exprs = {b.vars[0].name: b.expr for b in around.body if isinstance(b.expr, OpCall)}
        for term, other in _conjuncts(cond, exprs):
            if (
                _comparison(exprs.get(term.name)) == (begin, limit)
                and (other is not None) == several
            ):
                return (other,)
        constant = self.constants.get(cond.name)
        if constant is None or several or not {begin.name, limit.name} <= self.constants.keys():
            return None
        least, most = (self.constants[v.name].array.item() for v in (begin, limit))
        return (None,) if bool(constant.array.item()) == (least < most) else None

    def build(
        self,
        binding: Binding,
        loop: Loop,
        inside: Function,
        test: _Test,
        limit: Var,
        first: tuple[Var | None],
    ) -> _Counted:
        """Build the counted loop.

        If the count is the only exit condition, the counter leaves the state: it is the loop's
        index plus its start.
        """
        begin, origin = loop.state[test.state], binding.origin
        before: list[Binding] = []
        if not self.is_number(begin, 0):
            left = Var(self.fresh(f"{begin.name}.left"), INDEX)
            before.append(Binding((left,), OpCall("Sub", (limit, begin)), origin))
            limit = left
        trip = Var(self.fresh(f"{begin.name}.trips"), INDEX)
        zero = self.number("none", np.zeros((), np.int64))
        before.append(Binding((trip,), OpCall("Max", (limit, zero)), origin))
        goes_on = self.number("goes_on", np.ones((), np.bool_))
        counted = replace(loop, trip=trip, cond=first[0])
        body = replace(inside, outputs=(test.other or goes_on, *inside.outputs[1:]))
        from_zero = self.is_number(begin, 0)
        if from_zero:
            body = _replace_state_by_index(body, test.state)
        if test.other is not None:
            return _Counted((*before, replace(binding, expr=counted)), _remove_dead(body))
        vars, place = binding.vars, test.state
        before.append(Binding((vars[place],), OpCall("Add", (begin, trip)), origin))
        counted = replace(counted, state=_drop(loop.state, place))
        if not from_zero:
            counted = replace(counted, args=(*loop.args, begin))
            body = self.from_start(body, place)
        params = _drop(body.params, COUNTERS + place)
        body = replace(body, params=params, outputs=_drop(body.outputs, 1 + place))
        loops = (Binding(_drop(vars, place), counted, origin),) if counted.state else ()
        return _Counted((*before, *loops), _remove_dead(body))

    def from_start(self, body: Function, place: int) -> Function:
        """Compute a state from the loop's index and a new last parameter, its start."""
        param = body.params[COUNTERS + place]
        start = Var(self.fresh(f"{param.name}.match_first"), INDEX)
        start_binding = Binding(
            (param,), OpCall("Add", (body.params[0], start)), body.body[0].origin
        )
        return replace(body, params=(*body.params, start), body=(start_binding, *body.body))

    def fresh(self, wish: str) -> str:
        """Reserve a fresh name."""
        name = fresh(wish, self.names)
        self.names.add(name)
        return name

    def number(self, wish: str, array: np.ndarray) -> Var:
        """Add a constant."""
        name = self.fresh(wish)
        self.constants[name] = Constant(array)
        return Var(name, self.constants[name].type)


def _conjuncts(cond: Var, exprs: Mapping[str, OpCall]) -> Iterator[tuple[Var, Var | None]]:
    """Yield the terms of a conjunction, each with the other one."""
    yield cond, None
    expr = exprs.get(cond.name)
    if expr is not None and expr.op == "And":
        left, other = (v for v in expr.args if v is not None)
        if left.type == other.type:
            yield left, other
            yield other, left


def _comparison(expr: OpCall | None) -> tuple[Var, Var] | None:
    """Return the smaller and the greater operand of an int64 comparison."""
    if expr is None or expr.op not in ("Less", "Greater"):
        return None
    left, other = (v for v in expr.args if v is not None)
    if left.type != INDEX or other.type != INDEX:
        return None
    return (left, other) if expr.op == "Less" else (other, left)


def _replace_state_by_index(body: Function, state: int) -> Function:
    """Replace a state by the loop's index."""
    new = {body.params[COUNTERS + state].name: body.params[0]}
    bindings = tuple(replace(b, expr=with_reads(b.expr, new)) for b in body.body)
    outputs = tuple(new.get(v.name, v) for v in body.outputs)
    return replace(body, body=bindings, outputs=outputs)


def _drop(vars: tuple[Var, ...], place: int) -> tuple[Var, ...]:
    return (*vars[:place], *vars[place + 1 :])


def _remove_dead(body: Function) -> Function:
    """Drop bindings that nothing in the body reads."""
    live, live_body = {v.name for v in body.outputs}, []
    for binding in reversed(body.body):
        if not isinstance(binding.expr, OpCall) or any(v.name in live for v in binding.vars):
            live.update(v.name for v in binding.reads)
            live_body.append(binding)
    return replace(body, body=tuple(reversed(live_body)))


def trips_of(loop: Loop, around: Function, inside: Function, program: Program) -> Dim | None:
    """Return a loop's trip count if it is a number or an extent and no data ends the loop."""
    same = {
        b.var.name: b.reads[0].name
        for b in inside.body
        if isinstance(b.expr, OpCall) and b.expr.op == "Identity"
    }
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
