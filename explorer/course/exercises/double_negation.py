"""Exercise: a pass that removes double negation."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer.np as enp
from explorer.compiler import compile
from explorer.course.counterexample import counterexample
from explorer.course.exercise import Check, Exercise, require
from explorer.frontends.load import load
from explorer.frontends.trace import trace
from explorer.frontends.tracing.annotations import tensor
from explorer.ir.calls import OpCall
from explorer.ir.program import Program
from explorer.options import Options

AFTER = "fold constants"


def _negated(times: int) -> Any:
    def run(x: Any) -> Any:
        y = enp.exp(x)
        for _ in range(times):
            y = enp.negative(y)
        return enp.tanh(y)

    return load(trace(lambda x: run(x))(tensor("float32", 3, 4)))


def _count_live_negations(program: Program) -> int:
    """Return the number of negations that the outputs depend on."""
    producers = {b.var.name: b.expr for b in program.main.body}
    pending, seen, count = [v.name for v in program.main.outputs], set(), 0
    while pending:
        name = pending.pop()
        expr = producers.get(name)
        if name in seen or not isinstance(expr, OpCall):
            continue
        seen.add(name)
        count += expr.op == "Neg"
        pending += [a.name for a in expr.args if a is not None]
    return count


def _remaining_negations(answer: Any, times: int) -> int:
    """Return the number of negations that an answer leaves.

    An answer that changes nothing counts as not attempted.
    """
    options = Options(passes=((AFTER, answer),), registered=False)
    c = compile(_negated(times), options=options, until="typed")
    step = next(s for s in c.snapshots if s.own)
    if step.after is step.before and times > 1:
        raise NotImplementedError
    return _count_live_negations(step.after)


def _check_small_counts(answer: Any, seed: int) -> None:
    for times in (1, 2, 3, 4):
        left = _remaining_negations(answer, times)
        require(left == times % 2, f"of {times} negations {left} are left; {times % 2} need be")


def _check_many(answer: Any, seed: int) -> None:
    times = 20 + int(np.random.default_rng(seed).integers(10))
    left = _remaining_negations(answer, times)
    require(left == times % 2, f"of {times} negations {left} are left; {times % 2} need be")


def _check_random_programs(answer: Any, seed: int) -> None:
    example = counterexample(answer, after=AFTER, programs=60, seed=seed)
    require(example is None, f"this program is not what it was:\n{example}")


EXERCISE = Exercise(
    name="double_negation",
    chapter="02_rewriting",
    title="Your pass: remove double negation",
    goal="Write a pass `no_double_negation`: if a negation reads a negation, the value of the "
    "inner operand replaces both. The pass follows the step 'fold constants' and runs in "
    "every later compilation: the explorer lists it among the stages.",
    answer="no_double_negation",
    stub='''\
from dataclasses import replace

import explorer
from explorer.ir.calls import OpCall


@explorer.compiler_pass("no double negation", after="fold constants")
def no_double_negation(program):
    """After: no negation reads a negation. `t = -x; y = -t` becomes `y = x`."""
    return program
''',
    solution='''\
from dataclasses import replace

import explorer
from explorer.ir.calls import OpCall


@explorer.compiler_pass("no double negation", after="fold constants")
def no_double_negation(program):
    """After: no negation reads a negation. `t = -x; y = -t` becomes `y = x`."""
    negated = {}  # the name of a value -> the value that it negates
    body = []
    for binding in program.main.body:
        expr = binding.expr
        if isinstance(expr, OpCall) and expr.op == "Neg":
            (value,) = expr.args
            if value.name in negated:
                expr = OpCall("Identity", (negated[value.name],), ())
            else:
                negated[binding.var.name] = value
        body.append(replace(binding, expr=expr))
    return program.with_body(tuple(body))
''',
    hints=(
        "A program is a tuple of bindings, `program.main.body`; a negation is an `OpCall` with "
        "op 'Neg'.",
        "For each value that a negation defines, remember its operand. Do not drop bindings: a "
        "later step removes dead code, and every binding has an origin that must be preserved.",
        "`y = -t` becomes `OpCall('Identity', (x,), ())`; then y equals x, even if x is a "
        "negation.",
    ),
    checks=(
        Check("one to four negations in a row", 2, _check_small_counts),
        Check("small random programs compute what they did", 3, _check_random_programs),
        Check("many negations in a row", 1, _check_many, True),
        Check("other random programs", 2, _check_random_programs, True),
    ),
    exit_question="Is the same rule valid for 1 / (1 / x)? For which x does it fail?",
)
