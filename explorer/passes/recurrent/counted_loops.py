"""A loop that goes on while a counter is below a number is told how many trips it makes.

    i = 0; while i < n: x = f(x, i); i = i + 1   ->   for i in range(max(0, n)): x = f(x, i)

Scalars of control flow are folded so into the instruction that counts: no kernel adds or compares,
and no unit waits for another's answer (Cocktailer; induction variables are Aho, Lam, Sethi and
Ullman 2006, section 9.1). What else ends the loop still does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.calls import Loop, OpCall, Var
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.types import Tensor
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.simplify.dropped_origins import account
from explorer.passes.simplify.substitution import with_reads

INDEX = Tensor((), "int64")
COUNTERS = 2  # parameters of a body before its state: the trip, and whether it goes on


@compiler_pass("count-loops", paper="Zhang et al. 2023, Cocktailer; Aho et al. 2006, section 9.1")
def count_loops(program: Program) -> Program:
    """After: no loop without a limit goes on while an int64 that it counts up by one is below
    another that it does not change.
    """
    counting = _Counting(program)
    functions = {f.name: f for f in program.functions}
    calls = [n for f in program.functions for b in f.body for n in b.calls]
    for name in functions:
        body: list[Binding] = []
        for binding in functions[name].body:
            found = None
            if isinstance(binding.expr, Loop) and calls.count(binding.expr.body) == 1:
                inside = functions[binding.expr.body]
                found = counting.counted(binding, binding.expr, functions[name], inside)
            if found is None:
                body.append(binding)
                continue
            body += found.bindings
            functions[found.inside.name] = found.inside
        functions[name] = replace(functions[name], body=tuple(body))
    every = tuple(functions.values())
    if every == program.functions:
        return program
    after = replace(program, functions=every, constants=counting.constants)
    return account(program, after, "counted by the loop")


@dataclass(frozen=True, slots=True)
class _Counted:
    """A loop with what is bound before it, and its body."""

    bindings: tuple[Binding, ...]
    inside: Function


@dataclass(frozen=True, slots=True)
class _Test:
    """`state < limit`, by the state's place; what else must be true, if anything."""

    state: int
    limit: Var
    other: Var | None


class _Counting:
    def __init__(self, program: Program) -> None:
        self.constants = dict(program.constants)
        self.names = {v.name for _, b in program.bindings() for v in b.vars}
        self.names |= {p.name for f in program.functions for p in f.params}
        self.names |= self.constants.keys() | {f.name for f in program.functions}

    def counted(
        self, binding: Binding, loop: Loop, around: Function, inside: Function
    ) -> _Counted | None:
        """The loop that is told its trips; None where it is no such loop."""
        if loop.trip is not None or loop.cond is None or loop.scans:
            return None
        kept = dict(zip((p.name for p in inside.params[-len(loop.args) :]), loop.args))
        kept = kept if loop.args else {}
        for test in self.tests(loop, inside):
            limit = kept.get(test.limit.name, test.limit)
            if test.limit.name not in kept and limit.name not in self.constants:
                continue
            begin = loop.state[test.state]
            first = self.first(loop.cond, begin, limit, around, test.other is not None)
            if first is not None:
                return self.made(binding, loop, inside, test, limit, first)
        return None

    def tests(self, loop: Loop, inside: Function) -> Iterator[_Test]:
        """The comparisons that must be true for the body to go on, of a state that it counts."""
        made = {b.vars[0].name: b.expr for b in inside.body if isinstance(b.expr, OpCall)}
        for found, other in _terms(inside.outputs[0], made):
            below = _less(made.get(found.name))
            if below is None:
                continue
            count, limit = below
            for n in range(len(loop.state)):
                param, after = inside.params[COUNTERS + n], inside.outputs[1 + n]
                if count == after and self.counts(made.get(after.name), param):
                    yield _Test(n, limit, other)

    def counts(self, expr: OpCall | None, param: Var) -> bool:
        """Whether an expression is an int64 and one more."""
        if expr is None or expr.op != "Add" or param.type != INDEX:
            return False
        one, other = (v for v in expr.args if v is not None)
        return any(a == param and self.is_number(b, 1) for a, b in ((one, other), (other, one)))

    def is_number(self, var: Var, number: int) -> bool:
        """Whether a value is a constant scalar."""
        found = self.constants.get(var.name)
        return found is not None and found.array.size == 1 and found.array.item() == number

    def first(
        self, cond: Var, begin: Var, limit: Var, around: Function, several: bool
    ) -> tuple[Var | None] | None:
        """What else must be true before the first trip, if `cond` tells the same of it as the body
        of the others.
        """
        made = {b.vars[0].name: b.expr for b in around.body if isinstance(b.expr, OpCall)}
        for found, other in _terms(cond, made):
            if _less(made.get(found.name)) == (begin, limit) and (other is not None) == several:
                return (other,)
        known = self.constants.get(cond.name)
        if known is None or several or not {begin.name, limit.name} <= self.constants.keys():
            return None
        least, most = (self.constants[v.name].array.item() for v in (begin, limit))
        return (None,) if bool(known.array.item()) == (least < most) else None

    def made(
        self,
        binding: Binding,
        loop: Loop,
        inside: Function,
        test: _Test,
        limit: Var,
        first: tuple[Var | None],
    ) -> _Counted:
        """The loop for so many trips as are left to the limit. Where nothing else ends it, the
        counter is no state: it is what the loop counts, and what it begins with.
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
            body = _by_count(body, test.state)
        if test.other is not None:
            return _Counted((*before, replace(binding, expr=counted)), _live(body))
        vars, place = binding.vars, test.state
        before.append(Binding((vars[place],), OpCall("Add", (begin, trip)), origin))
        counted = replace(counted, state=_without(loop.state, place))
        if not from_zero:
            counted = replace(counted, args=(*loop.args, begin))
            body = self.from_start(body, place)
        params = _without(body.params, COUNTERS + place)
        body = replace(body, params=params, outputs=_without(body.outputs, 1 + place))
        loops = (Binding(_without(vars, place), counted, origin),) if counted.state else ()
        return _Counted((*before, *loops), _live(body))

    def from_start(self, body: Function, place: int) -> Function:
        """The body that makes a state of its count, and of a last parameter that it begins with."""
        param = body.params[COUNTERS + place]
        start = Var(self.fresh(f"{param.name}.first"), INDEX)
        made = Binding((param,), OpCall("Add", (body.params[0], start)), body.body[0].origin)
        return replace(body, params=(*body.params, start), body=(made, *body.body))

    def fresh(self, wish: str) -> str:
        name = fresh(wish, self.names)
        self.names.add(name)
        return name

    def number(self, wish: str, array: np.ndarray) -> Var:
        """A constant of its own."""
        name = self.fresh(wish)
        self.constants[name] = Constant(array)
        return Var(name, self.constants[name].type)


def _terms(cond: Var, made: Mapping[str, OpCall]) -> Iterator[tuple[Var, Var | None]]:
    """What a bool is the conjunction of: each part with the other."""
    yield cond, None
    expr = made.get(cond.name)
    if expr is not None and expr.op == "And":
        one, other = (v for v in expr.args if v is not None)
        if one.type == other.type:
            yield one, other
            yield other, one


def _less(expr: OpCall | None) -> tuple[Var, Var] | None:
    """The smaller and the greater of two int64 that are compared."""
    if expr is None or expr.op not in ("Less", "Greater"):
        return None
    one, other = (v for v in expr.args if v is not None)
    if one.type != INDEX or other.type != INDEX:
        return None
    return (one, other) if expr.op == "Less" else (other, one)


def _by_count(body: Function, state: int) -> Function:
    """The body that reads its count in place of a state."""
    new = {body.params[COUNTERS + state].name: body.params[0]}
    bindings = tuple(replace(b, expr=with_reads(b.expr, new)) for b in body.body)
    outputs = tuple(new.get(v.name, v) for v in body.outputs)
    return replace(body, body=bindings, outputs=outputs)


def _without(vars: tuple[Var, ...], place: int) -> tuple[Var, ...]:
    return (*vars[:place], *vars[place + 1 :])


def _live(body: Function) -> Function:
    """Without what nothing in it reads."""
    live, kept = {v.name for v in body.outputs}, []
    for binding in reversed(body.body):
        if not isinstance(binding.expr, OpCall) or any(v.name in live for v in binding.vars):
            live.update(v.name for v in binding.reads)
            kept.append(binding)
    return replace(body, body=tuple(reversed(kept)))
