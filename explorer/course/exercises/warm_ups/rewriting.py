"""Warm-ups of chapter 02."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile
from explorer.course.exercise import Check, Exercise, require
from explorer.course.replay import Replay, draw_inputs, send_change
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor
from explorer.ir.calls import Expr, OpCall
from explorer.ir.program import Binding, Program
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.passes.validate import difference
from explorer.process.user_code import shown
from explorer.transforms.rewrite import Rewrite

BINARY = ("Add", "Mul", "Sub")
Bindings = list[tuple[str, str, list[str]]]  # (name, operator, names that it reads)


def _draw_bindings(draw: Random, count: int) -> Bindings:
    """Draw bindings that read a few of the values before them."""
    names, bindings = ["x", "y"], Bindings()
    for n in range(count):
        op = draw.choice(("Exp", "Tanh", *BINARY))
        reads = [draw.choice(names[-4:]) for _ in range(2 if op in BINARY else 1)]
        bindings.append((f"v{n}", op, reads))
        names.append(f"v{n}")
    return bindings


def _needed(bindings: Bindings, outputs: list[str]) -> set[str]:
    """Return the names that the outputs depend on."""
    reads = {name: names for name, _, names in bindings}
    pending, needed = list(outputs), set[str]()
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += reads.get(name, [])
    return needed


def _check_live_bindings(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for count in (3, 4, 5, *(draw.randint(3, 9) for _ in range(17))):
        bindings = _draw_bindings(draw, count)
        outputs = draw.sample([name for name, _, _ in bindings], draw.randint(1, 2))
        needed = _needed(bindings, outputs)
        right = [name for name, _, _ in bindings if name in needed]
        got = answer(bindings, outputs)
        require(
            isinstance(got, list) and all(isinstance(b, (list, tuple)) and b for b in got),
            f"{shown(got)} is no list of bindings",
        )
        names = [b[0] for b in got]
        require(
            names == right,
            f"of {bindings} the outputs {outputs} need the {len(right)} bindings {right}, not the "
            f"{len(names)} bindings {shown(names)}",
        )


_LIVE_BINDINGS = '''\
def live_bindings(bindings, outputs):
    """Return the bindings that the outputs depend on, in their order."""
    needed, live = set(outputs), []
    for name, op, reads in reversed(bindings):
        if name in {}:
            needed.update(reads)
            live.insert(0, (name, op, reads))
    return live
'''

LIVE_BINDINGS = Exercise(
    name="live_bindings",
    chapter="02_rewriting",
    title="Dead code",
    activity="fill in",
    minutes=3,
    goal="A binding is here a triple `(name, op, reads)`, and `reads` lists the names that it "
    "reads. Bindings that no output depends on are *dead code*. Fill in the blank of this pass, "
    "so that it removes them in a single scan from the last binding to the first.",
    answer="live_bindings",
    stub=_LIVE_BINDINGS.format("..."),
    solution=_LIVE_BINDINGS.format("needed"),
    hints=("When the scan reaches a binding, it has seen everything that may read its value.",),
    checks=(Check("random programs", 1, _check_live_bindings),),
)


def _skip_relu(binding: Binding, program: Program) -> Expr | None:
    """Let a relu that reads a relu read that relu's operand: the rule of section 2."""
    if not isinstance(binding.expr, OpCall) or binding.expr.op != "Relu":
        return None
    (operand,) = binding.expr.args
    inner = next((b.expr for b in program.main.body if operand in b.vars), None)
    if isinstance(inner, OpCall) and inner.op == "Relu":
        return replace(binding.expr, args=inner.args)
    return None


def _typed(function: Any, *shape: int) -> Program:
    """Return a typed program in which nothing was rewritten."""
    model = load(trace(function)(tensor("float32", *shape)))
    return compile(model, options=Options(registered=False), until="typed").program


@cache
def _changing_rounds(relus: int) -> int:
    """Return how many rounds of the rule change a chain of relus."""

    def run(x: Any) -> Any:
        for _ in range(relus):
            x = enp.relu(x)
        return x

    program, count, apply = _typed(lambda x: run(x), 3), 0, Rewrite(_skip_relu)
    while (after := apply._once(program)) is not program:
        program, count = after, count + 1
    return count


def _check_relu_rounds(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for relus in sorted({1, 2, 4, *(draw.randint(3, 70) for _ in range(5))}):
        right, got = _changing_rounds(relus), answer(relus)
        require(
            got == right and not isinstance(got, bool),
            f"{right} rounds change a chain of {relus} relus, not {shown(got)}",
        )


_RELU_ROUNDS = '''\
def relu_rounds(relus):
    """Return the number of rounds in which the rule changes a chain of so many relus."""
'''

RELU_ROUNDS = Exercise(
    name="relu_rounds",
    chapter="02_rewriting",
    title="Rounds until the fixpoint",
    activity="predict",
    minutes=8,
    goal="The rule `one relu` of this section is applied to a chain of any number of relus, from "
    "1 to some dozens. In a round every binding sees the program as it was when the round began. "
    "Predict in how many rounds the program changes; the last round, which changes nothing, does "
    "not count.",
    answer="relu_rounds",
    stub=_RELU_ROUNDS + "    return ...\n",
    solution=_RELU_ROUNDS + "    return (relus - 1).bit_length()\n",
    hints=(
        "After a round every relu reads the operand of the relu that it read before. How long is "
        "the chain that the last relu ends, then?",
        "A chain of `d` relus becomes one of `-(-d // 2)`: count how often, until it is 1.",
    ),
    checks=(Check("chains of random length, by the compiler's rewriter", 2, _check_relu_rounds),),
)

LIMITS = (-2.0, -1.0, 0.0, 1.0, 2.0)


def _clamped(limits: tuple[float | np.ndarray, ...]) -> Program:
    def run(x: Any) -> Any:
        for limit in limits:
            x = enp.maximum(enp.tanh(x) * 3.0, limit)
        return x

    return _typed(lambda x: run(x), 4, 5)


def _record_rule(answer: Any, limits: tuple[float | np.ndarray, ...]) -> Any:
    """Return what a rule changes in a program with maxima."""
    program = _clamped(limits)
    return send_change(program, Rewrite(answer)(program))


def _check_maximum_rule(answer: Any, seed: int) -> None:
    draw, rng = Random(seed), np.random.default_rng(seed)
    cases: list[tuple[float, ...]] = [(limit,) for limit in LIMITS]
    cases += [tuple(draw.choice(LIMITS) for _ in range(draw.randint(2, 4))) for _ in range(3)]
    for limits in cases:
        program = _clamped(limits)
        after = Replay(answer.run(_record_rule, limits), "maximum_rule")(program)
        verify(after)
        name = f"maxima with {', '.join(f'{limit:g}' for limit in limits)}"
        inputs = draw_inputs(program, rng)
        off = difference(evaluate(program, inputs), evaluate(after, inputs))
        require(not off, f"{name}: the value is not what it was: {off}")
        left, right = _count(after, "Max"), sum(limit != 0 for limit in limits)
        require(left == right, f"{name}: {left} maxima are left, and {right} need be")
    for shape in ((5,), (1, 1, 1)):  # a limit for each column, and one that adds a dim
        zeros = np.zeros(shape, np.float32)
        program = _clamped((zeros,))
        after = Replay(answer.run(_record_rule, (zeros,)), "maximum_rule")(program)
        verify(after)
        inputs = draw_inputs(program, rng)
        off = difference(evaluate(program, inputs), evaluate(after, inputs))
        require(not off, f"a maximum with zeros of shape {shape}: it is not what it was: {off}")


def _count(program: Program, op: str) -> int:
    return sum(isinstance(b.expr, OpCall) and b.expr.op == op for b in program.main.body)


_MAXIMUM_RULE = '''\
from explorer.ir.calls import OpCall


def maximum_rule(binding, program):
    """Rewrite `maximum(x, 0)` as `relu(x)`."""
    if not isinstance(binding.expr, OpCall) or binding.expr.op != "Max":
        return None
    x, limit = binding.expr.args
    constant = program.constants.get(limit.name)
    if constant is None or constant.array.shape != () or {}:
        return None
    return OpCall("Relu", (x,), ())
'''

MAXIMUM_RULE = Exercise(
    name="maximum_rule",
    chapter="02_rewriting",
    title="A rule that matches too much",
    activity="find the fault",
    minutes=8,
    goal="This rule replaces `maximum(x, 0)` by `relu(x)`. The result of the compiler's "
    "validation is a well-formed program, but some programs compute other values. Find the "
    "fault, and repair it: maxima with other limits stay as they are.",
    answer="maximum_rule",
    stub=_MAXIMUM_RULE.format("constant.array > 0"),
    solution=_MAXIMUM_RULE.format("constant.array != 0"),
    hints=(
        "For which limits does the rule match? Try some numbers on each side of 0.",
        "Where `x` is -0.5, what is `maximum(x, -1)`, and what is `relu(x)`?",
    ),
    checks=(Check("maxima with limits on each side of zero", 2, _check_maximum_rule),),
)


def _expressions(bindings: Bindings) -> dict[str, str]:
    """Return each value as an expression of the parameters."""
    texts = {"x": "x", "y": "y"}
    for name, op, reads in bindings:
        texts[name] = f"{op}({', '.join(texts[r] for r in reads)})"
    return texts


def _draw_repeated(draw: Random) -> Bindings:
    """Draw bindings of which some compute a value for the second time."""
    names, bindings = ["x", "y"], Bindings()
    for _ in range(draw.randint(4, 8)):
        op = draw.choice(("Exp", "Sub"))
        reads = [draw.choice(names) for _ in range(2 if op == "Sub" else 1)]
        for _ in range(draw.choice((1, 1, 2))):
            name = f"v{len(bindings)}"
            bindings.append((name, op, reads))
            names.append(name)
            expressions = _expressions(bindings)
            twins = [b for b in names if expressions[b] == expressions[reads[0]]]
            reads = [draw.choice(twins), *reads[1:]]
    return bindings


FIXED: Bindings = [
    ("a", "Exp", ["x"]),
    ("b", "Exp", ["x"]),
    ("c", "Sub", ["a", "y"]),
    ("d", "Sub", ["b", "y"]),
    ("e", "Sub", ["y", "b"]),
    ("f", "Tanh", ["x"]),
]


def _check_value_numbers(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for bindings in (FIXED, *(_draw_repeated(draw) for _ in range(15))):
        expressions, first = _expressions(bindings), dict[str, str]()
        right = {name: first.setdefault(expressions[name], name) for name, _, _ in bindings}
        got = answer(bindings)
        require(isinstance(got, dict), f"{shown(got)} is no dict")
        for name, earliest in right.items():
            require(
                got.get(name) == earliest,
                f"of {bindings} the first value equal to {name} is {earliest}, not "
                f"{shown(got.get(name))}",
            )


_VALUE_NUMBERS = '''\
def value_numbers(bindings):
    """Return a dict from each name to the first name with the same value."""
'''

VALUE_NUMBERS = Exercise(
    name="value_numbers",
    chapter="02_rewriting",
    title="Value numbering",
    activity="write",
    minutes=18,
    goal="Two bindings compute the same value if they have the same operator, and their operands "
    "are the same values in the same order. Write `value_numbers(bindings)` for a list of "
    "triples `(name, op, reads)`. It returns a dict: each bound name with the first bound name "
    "of the same value, which may be itself. This is *value numbering*; a pass for common "
    "subexpressions lets all readers of a name read the first one instead. One such replacement "
    "can make later bindings equal.",
    answer="value_numbers",
    stub=_VALUE_NUMBERS + "    raise NotImplementedError\n",
    solution=_VALUE_NUMBERS
    + """\
    first, by_expression = {}, {}
    for name, op, reads in bindings:
        key = (op, *(first.get(read, read) for read in reads))
        first[name] = by_expression.setdefault(key, name)
    return first
""",
    hints=(
        "A dict from (op, operands) to a name says whether a value was computed before.",
        "Before you look a binding up, replace each of its operands by its first name.",
    ),
    checks=(Check("a fixed program, and random ones", 3, _check_value_numbers),),
)

WARM_UPS = (LIVE_BINDINGS, RELU_ROUNDS, MAXIMUM_RULE, VALUE_NUMBERS)
