"""Warm-ups of chapter 12."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import explorer.np as enp
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile
from explorer.course.exercise import Check, Exercise, Wrong, require
from explorer.course.exercises.own_passes import points
from explorer.devices.sheet import read_sheet
from explorer.errors import BadSheet
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor

Model = Callable[..., Any]


def _value(answer: Any) -> Any:
    return answer


def _points_of(function: Model, *shapes: tuple[int, ...]) -> int:
    types = [tensor("float32", *dims) for dims in shapes]
    options = Options(registered=False)
    program = compile(load(trace(function)(*types)), options=options, until="planned").program
    return points(program)


def _check_own_sheet(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for _ in range(5):
        units, mhz = draw.randint(4, 120), draw.randint(600, 2400)
        launch_ns = draw.randint(800, 9000)
        text = answer(units, mhz, launch_ns)
        require(isinstance(text, str), f"a sheet is text, and not {text!r}"[:200])
        try:
            device = read_sheet(text)
        except BadSheet as problem:
            raise Wrong(f"the compiler refuses the sheet: {problem.sentence}") from problem
        document = f"{units} multiprocessors, {mhz} MHz, launches of {launch_ns} ns"
        for name, got, right in (
            ("units", device.units, units),
            ("clock_ghz", device.clock_ghz, mhz / 1000),
            ("launch_us", device.launch_us, launch_ns / 1000),
        ):
            require(
                abs(got - right) < 1e-9,
                f"a document says {document}: the device has {name} = {got:g}, and {right:g} is "
                "right",
            )


_OWN_SHEET = '''\
def own_sheet(units, mhz, launch_ns):
    """Return a data sheet with the numbers of a document, in the units of the sheet."""
    from_document = 'source = "its document"'
    return f"""
name = "mine"
title = "A V100 with other numbers"
like = "v100"
units = {{ value = {units}, unit = "streaming multiprocessors", {from_document} }}
clock_ghz = {{ value = {mhz / 1000}, unit = "GHz", {from_document} }}
launch_us = {{ value = {launch_ns}, unit = "us", {from_document} }}
"""
'''

OWN_SHEET = Exercise(
    name="own_sheet",
    chapter="12_capstone",
    title="A sheet that the compiler accepts",
    activity="find the fault",
    minutes=4,
    goal="`own_sheet(units, mhz, launch_ns)` should write a data sheet from a document that states "
    "the clock in MHz and the time of a launch in nanoseconds. The compiler accepts the sheet: its "
    "units and ranges are right. One number is still wrong: find it and correct it.",
    answer="own_sheet",
    stub=_OWN_SHEET,
    solution=_OWN_SHEET.replace("{launch_ns}", "{launch_ns / 1000}"),
    hints=("How long does a launch of 4,500 ns take by this sheet?",),
    checks=(Check("sheets of random documents", 1, _check_own_sheet),),
)


def _check_chain_points(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for _ in range(3):
        m, n, k, p = (draw.randint(2, 24) for _ in range(4))
        right = _points_of(lambda a, b, c: (a @ b) @ c, (m, n), (n, k), (k, p))
        got = answer(m, n, k, p)
        require(
            type(got) is int and got == right,
            f"(a b) c with a [{m}, {n}], b [{n}, {k}] and c [{k}, {p}]: the compiler counts "
            f"{right:,} points, and the answer is {got!r}"[:300],
        )


CHAIN_POINTS = Exercise(
    name="chain_points",
    chapter="12_capstone",
    title="The points of two products",
    activity="fill in",
    minutes=4,
    goal="A product of a matrix [m, n] and a matrix [n, k] has a loop over each of m, n and k, so "
    "its innermost line runs m * n * k times. Fill in the blank: how many points has (a b) c, if c "
    "is a matrix [k, p]?",
    answer="chain_points",
    stub='''\
def chain_points(m, n, k, p):
    """Return the points of (a b) c, of matrices [m, n], [n, k] and [k, p]."""
    return m * n * k + ...
''',
    solution='''\
def chain_points(m, n, k, p):
    """Return the points of (a b) c, of matrices [m, n], [n, k] and [k, p]."""
    return m * n * k + m * k * p
''',
    hints=("Which shape does a b have? It is the left factor of the second product.",),
    checks=(Check("random matrices, counted by the compiler", 1, _check_chain_points),),
)


SIDE = 32
SQUARE, ROW = (SIDE, SIDE), (1, SIDE)
Shapes = tuple[tuple[int, int], ...]
REWRITES: dict[str, tuple[Model, Model, Shapes]] = {
    "factor": (lambda a, b, c: a @ c + b @ c, lambda a, b, c: (a + b) @ c, (SQUARE,) * 3),
    "reorder": (
        lambda v, a, b: (v @ a) @ b,
        lambda v, a, b: v @ (a @ b),
        (ROW, SQUARE, SQUARE),
    ),
    "exp": (lambda a, b: enp.exp(a) * enp.exp(b), lambda a, b: enp.exp(a + b), (SQUARE,) * 2),
    "sum": (
        lambda a, b: (a @ b).sum(axis=1),
        lambda a, b: a @ b.sum(axis=1),
        (SQUARE,) * 2,
    ),
}


@cache
def _points_of_rewrite(name: str) -> tuple[int, int]:
    """Return the points before and after a rewrite."""
    before, after, shapes = REWRITES[name]
    return _points_of(before, *shapes), _points_of(after, *shapes)


def _check_rewrites(answer: Any, seed: int) -> None:
    table = answer.run(_value)
    require(
        isinstance(table, dict) and set(table) == set(REWRITES),
        "`rewrites` is a dict with a word for each rewrite",
    )
    for name in REWRITES:
        before, after = _points_of_rewrite(name)
        right = "fewer" if after < before else "more" if after > before else "same"
        require(
            table[name] == right,
            f"{name}: the compiler counts {before:,} points before and {after:,} after, which is "
            f"{right!r} and not {table[name]!r}"[:300],
        )


_REWRITES = """\
names = ("factor", "reorder", "exp", "sum")
counts = (..., ..., ..., ...)  # "fewer", "same" or "more"
rewrites = dict(zip(names, counts))
"""

POINTS_AFTER = Exercise(
    name="points_after",
    chapter="12_capstone",
    title="Four rewrites and the counter",
    activity="predict",
    minutes=8,
    goal="Points count how often the innermost line of each loop nest runs, whatever this line "
    "computes. `a`, `b` and `c` are matrices of 32 x 32, and `v` is a row of 32. Each rewrite is "
    "legal if sums may be reordered. Has the program fewer points after it, the same, or more?\n\n"
    "- factor: `a @ c + b @ c` becomes `(a + b) @ c`.\n"
    "- reorder: `(v @ a) @ b` becomes `v @ (a @ b)`.\n"
    "- exp: `exp(a) * exp(b)` becomes `exp(a + b)`, each fused into one kernel.\n"
    "- sum: `(a @ b).sum(axis=1)` becomes `a @ b.sum(axis=1)`.",
    answer="rewrites",
    stub=_REWRITES,
    solution=_REWRITES.replace("(..., ..., ..., ...)", '("fewer", "more", "same", "fewer")'),
    hints=(
        "Count the innermost lines of the products first: each product of 32 x 32 matrices runs "
        "its line 32,768 times.",
        "A fused map has one line for each element, however long the line is.",
    ),
    checks=(Check("four rewrites, counted by the compiler", 2, _check_rewrites),),
)


Line = tuple[str, str, tuple[str, ...]]  # a name, an operator, and the names that it reads
OPERATORS = (("MatMul", 2), ("MatMul", 2), ("Add", 2), ("Exp", 1))


def _random_body(draw: Random) -> tuple[list[Line], list[str]]:
    body: list[Line] = []
    for n in range(draw.randint(2, 10)):
        names = [f"x{i}" for i in range(2)] + [name for name, _, _ in body]
        op, count = draw.choice(OPERATORS)
        recent = names[-3:]
        body.append((f"t{n}", op, tuple(draw.choice(recent) for _ in range(count))))
    outputs = [body[-1][0], *(draw.choice(body)[0] for _ in range(draw.randint(0, 2)))]
    return body, list(dict.fromkeys(outputs))


def _check_body(answer: Any, body: list[Line], outputs: list[str]) -> None:
    got = answer(body, outputs)
    is_list = isinstance(got, (list, tuple)) and all(isinstance(name, str) for name in got)
    require(is_list, f"the answer is a list of names, and not {got!r}"[:200])
    text = "; ".join(f"{name} = {op}({', '.join(args)})" for name, op, args in body)
    for name, op, _ in body:
        readers = [reader for _, reader, args in body for arg in args if arg == name]
        is_output = name in outputs
        right = op == "MatMul" and readers == ["MatMul"] and not is_output
        words = f"{name} is a {op}, read by {', '.join(readers) or 'no operator'}"
        require(
            (name in got) == right,
            f"{text}; outputs: {', '.join(outputs)}: {words}{', and an output' * is_output}, so it "
            f"is {'' if right else 'not '}among the answer",
        )
    require(len(got) == len(set(got)), f"{text}: a name is listed twice in {got!r}")
    others = sorted(set(got) - {name for name, _, _ in body})
    require(not others, f"{text}: there is no operator {others}")


def _check_small_bodies(answer: Any, seed: int) -> None:
    for last, outputs in (
        (("t1", "MatMul", ("t0", "v")), ["t1"]),
        (("t1", "MatMul", ("t0", "v")), ["t1", "t0"]),
        (("t1", "MatMul", ("t0", "t0")), ["t1"]),
        (("t1", "Exp", ("t0",)), ["t1"]),
    ):
        _check_body(answer, [("t0", "MatMul", ("a", "b")), last], outputs)


def _check_random_bodies(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for _ in range(30):
        _check_body(answer, *_random_body(draw))


INNER_PRODUCTS = Exercise(
    name="inner_products",
    chapter="12_capstone",
    title="Products that can be reordered",
    activity="write",
    minutes=18,
    goal="A pass may compute (a b) v as a (b v) only if nothing else needs a b. Write "
    "`inner_products(body, outputs)`. `body` is a list of operators in order, each a tuple `(name, "
    "op, args)`: the name of its result, the operator, and the names that it reads. `outputs` are "
    "the names that the program returns. Return the names of the products (`op` is `'MatMul'`) "
    "that are read exactly once, by another product. An output is read by the caller, too.",
    answer="inner_products",
    stub='''\
def inner_products(body, outputs):
    """Return the names of products that only one other product reads, and nothing else."""
    raise NotImplementedError
''',
    solution='''\
from collections import Counter


def inner_products(body, outputs):
    """Return the names of products that only one other product reads, and nothing else."""
    reads = Counter(outputs)
    by_products = Counter()
    for _, op, args in body:
        reads.update(args)
        if op == "MatMul":
            by_products.update(args)
    products = [name for name, op, _ in body if op == "MatMul"]
    return [name for name in products if reads[name] == by_products[name] == 1]
''',
    hints=(
        "Count the reads of each name in one pass over the body. `t @ t` reads `t` twice.",
        "Count the outputs as reads, and the reads by products in a second counter.",
    ),
    checks=(
        Check("four small programs", 1, _check_small_bodies),
        Check("random programs", 2, _check_random_bodies),
    ),
)

WARM_UPS = (OWN_SHEET, CHAIN_POINTS, POINTS_AFTER, INNER_PRODUCTS)
