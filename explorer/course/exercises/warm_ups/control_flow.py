"""Warm-ups of chapter 09: traced branches, reads of the host, updates in place, and a while."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import gcd
from random import Random
from typing import Any

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.compiler.pipeline import compile
from explorer.course.exercise import Check, Exercise, require
from explorer.course.replay import receive_model, send_model
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor
from explorer.ir.calls import KernelCall, OpCall
from explorer.ops.interpreter.evaluate import evaluate
from explorer.process.counters import counters


def _three(x: Any, k: Any) -> Any:
    for _ in range(3):
        x = x * 2
    return x


def _as_many(x: Any, k: Any) -> Any:
    for _ in range(k):
        x = x * 2
    return x


def _either(x: Any, k: Any) -> Any:
    if k > 0:
        x = x * 2
    else:
        x = x * 3
    return x


def _by_shape(x: Any, k: Any) -> Any:
    if x.shape[0] > 2:
        x = x * 2
    else:
        x = x * 3
    return x


def _up_to_three(x: Any, k: Any) -> Any:
    for i in range(3):
        if k > i:
            x = x * 2
    return x


TRACED = {
    "three": _three,
    "as_many": _as_many,
    "either": _either,
    "by_shape": _by_shape,
    "up_to_three": _up_to_three,
}


def _count_multiplications(function: Any) -> int:
    """Return the multiplications in the program of a traced function, in all its functions."""
    program = load(trace(function)(tensor("float32", 4), tensor("int64"))).program
    return sum(isinstance(b.expr, OpCall) and b.expr.op == "Mul" for _, b in program.bindings())


def _value(answer: Any) -> Any:
    return answer


def _check_traced(answer: Any, seed: int) -> None:
    sent = answer.run(_value)
    require(isinstance(sent, dict) and set(sent) == set(TRACED), "it has a number by function")
    for name, function in TRACED.items():
        count = _count_multiplications(function)
        require(
            type(sent[name]) is int and sent[name] == count,
            f"the program of {name!r} does not have {sent[name]!r} multiplications",
        )


TRACED_LINES = Exercise(
    name="traced_lines",
    chapter="09_control_flow",
    title="What tracing keeps",
    activity="predict",
    minutes=4,
    goal='Each function is traced with `y` as `tensor("float32", 4)` and `k` as `tensor("int64")`. '
    "Predict how many multiplications its *program* contains, in all functions of the program "
    "together, however often they run.",
    answer="multiplications",
    stub="""\
def three(y, k):
    for _ in range(3):
        y = y * 2
    return y


def as_many(y, k):
    for _ in range(k):
        y = y * 2
    return y


def either(y, k):
    if k > 0:
        y = y * 2
    else:
        y = y * 3
    return y


def by_shape(y, k):
    if y.shape[0] > 2:
        y = y * 2
    else:
        y = y * 3
    return y


def up_to_three(y, k):
    for i in range(3):
        if k > i:
            y = y * 2
    return y


multiplications = {
    "three": ...,
    "as_many": ...,
    "either": ...,
    "by_shape": ...,
    "up_to_three": ...,
}
""",
    solution="""\
multiplications = {
    "three": 3,  # Python knows 3, and traces the body three times
    "as_many": 1,  # a loop of the program, with one body
    "either": 2,  # both arms
    "by_shape": 1,  # Python knows the shape, and traces one arm
    "up_to_three": 3,  # three branches, because Python knows 3 and not k
}
""",
    hints=("Which of the conditions does Python know while it traces, and which only a run?",),
    checks=(Check("the programs that tracing returns", 1, _check_traced),),
)


def _nested(x: Any, k: Any, m: Any) -> Any:
    for _ in range(k):
        for _ in range(m):
            if x[0] > 0:
                x = x * 0.5
    return x


@cache
def _on_host() -> Compilation:
    """Compile the nested loops for decisions of the host."""
    c = compile(load(trace(_nested)(tensor("float32", 4), tensor("int64"), tensor("int64"))))
    return c.with_options(grinder=replace(c.options.grinder, schedule="host"))


def _check_host_reads(answer: Any, seed: int) -> None:
    draw, c = Random(seed), _on_host()
    for k, m in ((0, 3), (3, 0), *((draw.randint(0, 5), draw.randint(0, 5)) for _ in range(8))):
        with counters.delta() as did:
            c.run(np.ones(4, np.float32), np.array(k), np.array(m))
        read, got = did.counts.host_reads, answer(k, m)
        require(
            isinstance(got, int) and got == read,
            f"k = {k}, m = {m}: Python read {read} values, not {got!r}",
        )


HOST_READS = Exercise(
    name="nested_reads",
    chapter="09_control_flow",
    title="What the host reads of two loops",
    activity="fill in",
    minutes=4,
    goal="Two loops are nested, and the host runs them: `for _ in range(k): for _ in range(m): if "
    "x[0] > 0: x = x * 0.5`. Python reads the trip count of each loop whenever the loop begins, "
    "and each condition. Fill in the blank: how many values does it read? The check runs the "
    "compiled loops and counts.",
    answer="host_reads",
    stub='''\
def host_reads(k, m):
    """Return the number of values that Python reads."""
    return 1 + k * ...
''',
    solution='''\
def host_reads(k, m):
    """Return the number of values that Python reads."""
    return 1 + k * (1 + m)
''',
    hints=("The 1 is the trip count of the outer loop. What is read in one of its iterations?",),
    checks=(Check("random trip counts", 1, _check_host_reads),),
)


ROWS = 1000  # of the table


def _tracked(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the table and the changes as NumPy computes them."""
    table, change = np.zeros((ROWS, 4)), np.zeros(4)
    for t in range(k):
        row = 2 * x[t % 7]
        change += abs(row - table[t % 16])
        table[t % 16] = row
    return table, change


def _like_tracked(x: Any, k: Any) -> Any:
    return x


def _record_model(answer: Any) -> Any:
    return send_model(load(answer))


def _check_in_place(answer: Any, seed: int) -> None:
    like = load(trace(_like_tracked)(tensor("float32", 7, 4), tensor("int64")))
    model = receive_model(answer.run(_record_model), like)
    rng = np.random.default_rng(seed)
    for k in (0, 1, int(rng.integers(17, 40))):
        x = rng.normal(size=(7, 4)).astype(np.float32)
        got = list(evaluate(model.program, {"x": x, "k": np.array(k)}).values())
        require(len(got) == 2, f"it returns {len(got)} values, not the table and the change")
        for name, value, right in zip(("table", "change"), got, _tracked(x, k), strict=True):
            require(value.shape == right.shape, f"the {name} is {value.shape}, not {right.shape}")
            off = float(np.abs(value - right).max())
            require(off < 1e-3, f"k = {k}: the {name} is off by {off:.2g}")
    copies = [
        binding.name
        for function, binding in compile(model, until="planned").program.bindings()
        if function.name != "main"
        and isinstance(binding.expr, KernelCall)
        and not binding.expr.kernel.updates
        and any(v.tensor.dims[:1] == (ROWS,) for v in binding.vars)
    ]
    require(
        not copies,
        f"each iteration copies the table of {ROWS:,} rows, to change a row of it: the kernel "
        f"{', '.join(copies)} does not write in place",
    )


_TRACK_HEAD = '''\
import explorer
from explorer import np as enp
from explorer import tensor


@explorer.trace
def tracked(x: tensor("float32", 7, 4), k: tensor("int64")):
    """Return a table whose rows are overwritten in turn, and the sum of all changes."""
    table = enp.zeros((1000, 4), "float32")
    change = enp.zeros((4,), "float32")
    for t in range(k):
        row = t % 16
'''

LATE_READER = Exercise(
    name="late_reader",
    chapter="09_control_flow",
    title="A loop that copies its table",
    activity="find the fault",
    minutes=8,
    goal="Each iteration changes one row of a table of 1,000 rows, and adds up by how much. The "
    "results are right, but every iteration copies the whole table. Find the line that forces the "
    "copy, and change the loop so that the table is updated in place.",
    answer="tracked",
    stub=_TRACK_HEAD
    + """\
        old = table.copy()
        table[row] = 2 * x[t % 7]
        change = change + enp.abs(table[row] - old[row])
    return table, change
""",
    solution=_TRACK_HEAD
    + """\
        before = table[row].copy()  # one row, and not the table
        table[row] = 2 * x[t % 7]
        change = change + enp.abs(table[row] - before)
    return table, change
""",
    hints=(
        "Which operator reads the old table after a row of it was written?",
        "Only one row of the old table is read. Copy this row, or read it before the write.",
    ),
    checks=(Check("the values of NumPy, and no copy of the table", 2, _check_in_place),),
)


def _like_divisor(a: Any, b: Any) -> Any:
    return a


def _check_divisor(answer: Any, seed: int) -> None:
    draw = Random(seed)
    like = load(trace(_like_divisor)(tensor("int64"), tensor("int64")))
    c = compile(receive_model(answer.run(_record_model), like))
    pairs = [(12, 18), (7, 0), (0, 7)]
    for _ in range(6):
        common = draw.randint(1, 50)
        pairs.append((common * draw.randint(1, 500), common * draw.randint(1, 500)))
    with counters.delta() as did:
        for a, b in pairs:
            got = next(iter(c.run(np.array(a), np.array(b)).values()))
            require(
                got.shape == () and int(got) == gcd(a, b),
                f"the greatest common divisor of {a} and {b} is {gcd(a, b)}, not {got}",
            )
    read = did.counts.host_reads
    require(read == 0, f"Python read {read} values while {len(pairs)} pairs ran")


_DIVISOR_HEAD = '''\
import explorer
from explorer import tensor


@explorer.trace
def divisor(a: tensor("int64"), b: tensor("int64")):
    """Return the greatest common divisor of a and b, which are 0 or more."""
'''

DIVISOR = Exercise(
    name="euclid",
    chapter="09_control_flow",
    title="A loop that decides when to end",
    activity="write",
    minutes=15,
    goal="Euclid's algorithm: while `b` is not 0, `a` becomes `b`, and `b` becomes the remainder "
    "of `a / b`. Then `a` is the greatest common divisor. Write `divisor(a, b)` as a traced "
    "function whose loop is part of the program: Python reads no value during a run, and `b` may "
    "be 0 from the beginning.",
    answer="divisor",
    stub=_DIVISOR_HEAD + "    raise NotImplementedError\n",
    solution=_DIVISOR_HEAD
    + """\
    while b != 0:
        a, b = b, a % b
    return a
""",
    hints=(
        "Tracing follows Python's own `while` if a run decides its condition.",
        "An iteration has two states, and both new values depend on the old ones: assign them "
        "together.",
    ),
    checks=(Check("random pairs, without the host", 2, _check_divisor),),
)

WARM_UPS = (TRACED_LINES, HOST_READS, LATE_READER, DIVISOR)
