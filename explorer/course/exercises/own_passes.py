"""Exercises on passes: double negation (chapter 02), and the capstone (chapter 12)."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile
from explorer.course.exercise import Check, Exercise, require
from explorer.course.exercises.random_programs import check_random_programs
from explorer.course.plain_values import decode, encode
from explorer.course.replay import (
    CHANGED_NOTHING,
    Replay,
    as_pass,
    draw_inputs,
    own_step,
    send_change,
)
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor
from explorer.ir.calls import OpCall
from explorer.ir.program import Program
from explorer.ops.interpreter.evaluate import evaluate
from explorer.passes.validate import difference
from explorer.process.sandbox import Limits

AFTER = "fold constants"
PROGRAMS = 16  # random ones in a check


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


def _record_pass(answer: Any, model: Any, until: str) -> Any:
    """Return what a pass changes in a model."""
    options = Options(passes=((AFTER, as_pass(answer)),), registered=False)
    return send_change(*own_step(compile(model, options=options, until=until)))


def _record_negated(answer: Any, times: int) -> Any:
    return _record_pass(answer, _negated(times), "typed")


def _check_negations(answer: Any, times: int, rng: np.random.Generator) -> None:
    """Check the number of negations that an answer leaves, and the value.

    An answer that changes nothing counts as not attempted.
    """
    change = answer.run(_record_negated, times)
    if change == CHANGED_NOTHING and times > 1:
        raise NotImplementedError
    model = _negated(times)
    replay = Replay(change, "no_double_negation")
    options = Options(passes=((AFTER, replay),), registered=False)
    c = compile(model, options=options, until="typed")
    left = _count_live_negations(own_step(c)[1])
    require(left == times % 2, f"of {times} negations {left} are left; {times % 2} need be")
    inputs = draw_inputs(model.program, rng)
    other = difference(evaluate(model.program, inputs), evaluate(c.program, inputs))
    require(not other, f"of {times} negations the value is not what it was: {other}")


def _check_small_counts(answer: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for times in (1, 2, 3, 4):
        _check_negations(answer, times, rng)


def _check_many(answer: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    _check_negations(answer, 20 + int(rng.integers(10)), rng)


def _check_random_programs(answer: Any, seed: int) -> None:
    check_random_programs(answer, AFTER, PROGRAMS, seed)


def _check_random_negations(answer: Any, seed: int) -> None:
    check_random_programs(answer, AFTER, PROGRAMS // 2, seed, "negative")


DOUBLE_NEGATION = Exercise(
    name="double_negation",
    chapter="02_rewriting",
    title="Your pass: remove double negation",
    goal="Write a pass `no_double_negation`: if a negation reads a negation, the value of the "
    "inner operand replaces both: `OpCall('Identity', (x,), ())` is the operator that returns its "
    "operand. The pass follows the step 'fold constants' and runs in "
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
        Check("small random programs compute what they did", 3, _check_random_negations),
        Check("many negations in a row", 1, _check_many, True),
        Check("other random programs", 2, lambda a, s: _check_random_negations(a, s + 1), True),
    ),
    exit_question="Is the same rule valid for 1 / (1 / x)? For which x does it fail?",
)


# Of the sum of the sizes of all terms; the sum itself can be near 0 by chance, and is no measure.
# In 300 draws of these extents another order of the sums differed by less than 2e-7 of it.
MOST_OFF = 5e-6
ZOO = ("zoo:tiny_bert", "zoo:small_nerf", "zoo:tiny_skip")


def points(program: Program) -> int:
    """Return how often the innermost line of any loop nest runs, under the sizes' hints."""
    return sum(
        prod(program.env.hint(a.extent) for a in (*c.axes, *c.reduce))
        for call in program.kernel_calls
        for c in call.kernel_call.kernel.computes
    )


def _models(m: int, n: int, k: int) -> dict[str, Any]:
    """Return small models: chained products in every order, a row and the sum of a product."""

    def left(a: Any, b: Any, v: Any) -> Any:
        return (a @ b) @ v

    def long(a: Any, b: Any, c: Any, v: Any) -> Any:
        return ((a @ b) @ c) @ v

    def wide(v: Any, a: Any, b: Any) -> Any:
        return v @ (a @ b)

    def shared(a: Any, b: Any, v: Any) -> Any:
        both = a @ b
        return both @ v + both.sum(axis=1, keepdims=True)

    def two(a: Any, b: Any, c: Any, v: Any) -> Any:
        return (a @ b) @ v + (c @ b) @ v

    def t(*dims: int) -> Any:
        return tensor("float32", *dims)

    return {
        "(a @ b) @ v": (left, (t(m, n), t(n, k), t(k, 1))),
        "((a @ b) @ c) @ v": (long, (t(m, n), t(n, k), t(k, m), t(m, 1))),
        "v @ (a @ b)": (wide, (t(1, m), t(m, n), t(n, k))),
        "(a @ b) @ v, with a @ b read twice": (shared, (t(m, n), t(n, k), t(k, 1))),
        "(v @ a) @ b": (lambda v, a, b: (v @ a) @ b, (t(1, m), t(m, n), t(n, k))),
        "(a @ b) @ v + (c @ b) @ v": (two, (t(m, n), t(n, k), t(m, n), t(k, 1))),
        "(a @ b)[:1]": (lambda a, b: (a @ b)[:1], (t(m, n), t(n, k))),
        "(a @ b).sum()": (lambda a, b: (a @ b).sum(), (t(m, n), t(n, k))),
    }


def _record_gain(answer: Any, sizes: list[int], name: str) -> Any:
    function, types = _models(*sizes)[name]
    return _record_pass(answer, load(trace(function)(*types)), "typed")


def _check_gain(answer: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(v) for v in rng.integers(20, 60, 3)]
    saved: dict[str, float] = {}
    changed = False
    for name, (function, types) in _models(*sizes).items():
        change = answer.run(_record_gain, sizes, name)
        changed |= change != CHANGED_NOTHING
        model = load(trace(function)(*types))
        plain = compile(model, options=Options(registered=False), until="planned")
        options = Options(passes=((AFTER, Replay(change, "less_work")),), registered=False)
        own = compile(model, options=options, until="planned")
        inputs = draw_inputs(model.program, rng)
        got = evaluate(own_step(own)[1], inputs)
        sizes_of_terms = evaluate(model.program, {n: np.abs(x) for n, x in inputs.items()})
        for n, value in evaluate(model.program, inputs).items():
            off = float(np.abs(got[n] - value).max() / sizes_of_terms[n].max())
            require(off < MOST_OFF, f"{name}: off by {off:.1g} of the sum of its terms' sizes")
        before, after = points(plain.program), points(own.program)
        require(after <= before, f"{name}: {before:,} points became {after:,}")
        saved[name] = after / before
    if not changed:
        raise NotImplementedError
    best = min(saved, key=lambda n: saved[n])
    require(
        saved[best] <= 0.5,
        f"at best, of {best}, {saved[best]:.0%} of the work are left; half must go of one model",
    )


@lru_cache(maxsize=len(ZOO))
def _checked_step(model: str, change: bytes) -> tuple[Program, Program]:
    """Return a model before and after a change; Wrong if any step changes a result."""
    options = Options(passes=((AFTER, Replay(decode(change), "less_work")),), registered=False)
    c = compile(model, options=options, until="planned", check=True)
    wrong = [f"{s.name}: {s.checked}" for s in c.snapshots if isinstance(s.checked, str)]
    require(not wrong, f"{model}: {'; '.join(wrong)}")
    return own_step(c)


def _check_zoo(answer: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for model in ZOO:
        change = encode(answer.run(_record_pass, model, "typed"))
        before, after = _checked_step(model, change)
        inputs = draw_inputs(before, rng)
        other = difference(evaluate(before, inputs), evaluate(after, inputs))
        require(not other, f"{model}: {other}")


_OWN_PASS_HEAD = '''\
from collections import Counter
from dataclasses import replace

import explorer
from explorer.ir.calls import OpCall, Var
from explorer.ir.program import Binding
from explorer.ir.types import Tensor


@explorer.compiler_pass("less work", after="fold constants")
def less_work(program):
    """Return the program with fewer points: no model has more, one at most half."""
'''

OWN_PASS = Exercise(
    name="own_pass",
    chapter="12_capstone",
    title="Your own pass",
    goal="Write a pass `less_work` that saves work and changes no result. The counter is "
    "*points*: how often the innermost line of any loop nest runs. Your pass must halve the "
    "points of at least one of the tested models, and must not raise them for any; hidden "
    "models are tested, too. One place to start: (a b) v and a (b v) are equal, but one of "
    "them costs more. The tested models have two other savings: of one product only a row is "
    "read, `(a @ b)[:1]`, and of another only the sum, `(a @ b).sum()`.",
    answer="less_work",
    stub=_OWN_PASS_HEAD + "    return program\n",
    solution=_OWN_PASS_HEAD
    + '''\
    producers = {b.vars[0].name: b for b in program.main.body}
    reads = Counter(v.name for b in program.main.body for v in b.reads)
    reads.update(v.name for v in program.main.outputs)

    def factors(binding):
        """Return the factors of a product of two matrices of known sizes, else none."""
        if binding is None or not isinstance(binding.expr, OpCall) or binding.expr.op != "MatMul":
            return ()
        shapes = [a.tensor.dims for a in binding.expr.args]
        known = all(len(s) == 2 and all(isinstance(d, int) for d in s) for s in shapes)
        return binding.expr.args if known else ()

    def work(a, b):
        return a.tensor.dims[0] * a.tensor.dims[1] * b.tensor.dims[1]

    def reordered(binding, inner, a, b):
        """Return the two bindings that compute (a b) c as a (b c), or c (a b) as (c a) b."""
        left, right = binding.expr.args
        first = (b, right) if inner is left else (left, a)
        dims = (first[0].tensor.dims[0], first[1].tensor.dims[1])
        new = Var(f"{binding.var.name}.first", Tensor(dims, binding.var.tensor.element))
        second = (a, new) if inner is left else (new, b)
        if work(*first) + work(*second) >= work(a, b) + work(left, right):
            return ()
        origin = binding.origin | producers[inner.name].origin
        return (
            Binding((new,), OpCall("MatMul", first, ()), origin),
            replace(binding, expr=OpCall("MatMul", second, ()), origin=origin),
        )

    body = []
    for binding in program.main.body:
        orders = [(binding,)]
        for inner in factors(binding):
            pair = factors(producers.get(inner.name))
            if pair and reads[inner.name] == 1:  # else the product is computed anyway
                orders.append(reordered(binding, inner, *pair))
        body += next(order for order in reversed(orders) if order)
    return program.with_body(tuple(body))
''',
    hints=(
        "`binding.expr.args` of a MatMul are its factors; a dict of bindings by name tells which "
        "operator produced each.",
        "A product that another binding reads as well must be computed anyway, so nothing is "
        "saved. Count the reads first.",
        "A new binding needs a name of its own, `Binding((Var(name, Tensor(dims, dtype)),), "
        "OpCall('MatMul', (b, v), ()), origin)`, and the origins of both bindings that it "
        "replaces.",
    ),
    checks=(
        Check("half the work of one model, no more of any, the same answers", 3, _check_gain),
        Check("small random programs compute what they did", 2, _check_random_programs),
        Check("models with other sizes", 2, lambda a, seed: _check_gain(a, seed + 1), True),
        Check("three models of the zoo, step by step", 2, _check_zoo, True),
    ),
    exit_question="Your pass changes the order of sums. When may a compiler do that?",
    limits=Limits(seconds=40.0, wall_seconds=80.0),
)
