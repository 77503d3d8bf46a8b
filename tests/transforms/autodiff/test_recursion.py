"""Gradients through functions that call themselves."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import explorer
import explorer.np as enp
from explorer import tensor
from explorer.ir.calls import FunctionCall
from tests.transforms.autodiff.finite import check, total

WIDE, QUICK, PROGRAMS = 3, 4, 100
VECTOR, MATRIX = tensor("float64", WIDE), tensor("float64", WIDE, WIDE)
SCALAR, COUNT = tensor("float64"), tensor("int64")
LINKS, LEAVES = tensor("int64", 7), tensor("float64", 7, WIDE)
DRAW = np.random.default_rng(8)


def some(*shape: int) -> np.ndarray:
    return DRAW.normal(size=shape) * 0.5


@explorer.function(result=SCALAR)
def power(x: SCALAR, n: COUNT) -> Any:
    return explorer.cond(n <= 0, lambda: x * 0 + 1, lambda: x * power(x, n - 1))


@explorer.function(result=VECTOR)
def tree(x: VECTOR, w: MATRIX, k: COUNT) -> Any:
    """Two calls a call, as deep as the data and a count say."""
    if k <= 0:
        return enp.tanh(x)
    if x[0] > 1.5:
        return x * x
    a, b = tree(x * 0.5, w, k - 1), tree(w @ x, w, k - 2)
    return enp.tanh(w @ (a * b) + a)


@explorer.function(result=VECTOR)
def encoded(node: COUNT, left: LINKS, right: LINKS, leaf: LEAVES, w: MATRIX) -> Any:
    """A recursive autoencoder: a node is its leaf, or is made of its children."""
    if left[node] < 0:
        return leaf[node]
    a = encoded(left[node], left, right, leaf, w)
    return enp.tanh(w @ (a + encoded(right[node], left, right, leaf, w) * 0.5))


@explorer.function(result=VECTOR)
def even(x: VECTOR, k: COUNT) -> Any:
    return x if k <= 0 else enp.sin(odd(x * 1.5, k - 1))


@explorer.function(result=VECTOR)
def odd(x: VECTOR, k: COUNT) -> Any:
    return x * x if k <= 0 else even(x + 1, k - 1) * x


@explorer.function(result=(VECTOR, SCALAR))
def both(x: VECTOR, s: SCALAR, k: COUNT) -> Any:
    """Two results, of which a call reads one more than once."""
    if k <= 0:
        return x, s
    y, t = both(enp.sin(x) * s, s * 0.9, k - 1)
    return y + x * t, t * y.sum()


def test_a_power_by_calls() -> None:
    for n in (0, 1, 4):
        check(power, np.array(1.7), np.array(n))
    assert explorer.grad(power)(np.array(2.0), np.array(5)) == 80.0


def test_a_second_derivative_of_a_recursion() -> None:
    slope = explorer.grad(power)
    assert explorer.grad(lambda x, n: slope(x, n))(np.array(2.0), np.array(5)) == 160.0


@pytest.mark.few(1)
@pytest.mark.parametrize("k", [0, 1, 2, 5])
def test_two_calls_in_a_call_and_a_weight_that_all_read(k: int) -> None:
    check(tree, some(WIDE), some(WIDE, WIDE), np.array(k))


def test_a_recursion_that_ends_where_its_data_say() -> None:
    check(tree, np.full(WIDE, 2.9), np.eye(WIDE) * 1.1, np.array(4))


def test_a_tree_that_is_data() -> None:
    left, right = np.array([1, 3, -1, -1, 5, -1, -1]), np.array([2, 4, -1, -1, 6, -1, -1])
    slopes = explorer.grad(total(encoded), argnums=(3, 4))
    kinds = (COUNT, LINKS, LINKS, LEAVES, MATRIX)
    model = explorer.trace(lambda n, left, right, leaf, w: slopes(n, left, right, leaf, w))(*kinds)
    compiled = explorer.compile(model)
    for root in (0, 2):  # the whole tree, and a leaf
        given = (np.array(root), left, right, some(7, WIDE), some(WIDE, WIDE))
        check(encoded, *given, compiled=False)
        for found, wanted in zip(compiled.run(*given).values(), slopes(*given), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.few(1)
@pytest.mark.parametrize("k", [0, 1, 4])
def test_functions_that_call_each_other(k: int) -> None:
    check(even, some(WIDE), np.array(k))
    check(lambda x, k: odd(x, k) + even(x * 0.5, k), some(WIDE), np.array(k))


@pytest.mark.exhaustive
@pytest.mark.parametrize("k", [0, 1, 3])
def test_several_results(k: int) -> None:
    check(lambda x, s, k: both(x, s, k)[0], some(WIDE), some(), np.array(k))
    check(lambda x, s, k: both(x, s, k)[1], some(WIDE), some(), np.array(k))
    check(lambda x, s, k: both(x, s, k)[0] * both(x, s, k)[1], some(WIDE), some(), np.array(k))


@pytest.mark.exhaustive
def test_a_recursion_in_a_loop() -> None:
    def f(x: Any, w: Any) -> Any:
        def body(h: Any, row: Any) -> Any:
            return tree(h + row, w, enp.asarray(2)), None

        return explorer.scan(body, enp.zeros((WIDE,), "float64"), x)[0]

    check(f, some(3, WIDE), some(WIDE, WIDE))


def test_a_function_has_one_reverse_for_what_it_is_asked() -> None:
    def loss(x: Any, w: Any, k: Any) -> Any:
        return (tree(x, w, k) + tree(x * 2, w, k)).sum()

    slope = explorer.trace(lambda x, w, k: explorer.grad(loss)(x, w, k))(VECTOR, MATRIX, COUNT)
    program = explorer.compile(slope, until="differentiated").program
    backs = [f for f in program.functions if f.name.startswith("tree.back")]
    assert len(backs) == 1
    called = {b.expr.function for _, b in program.bindings() if isinstance(b.expr, FunctionCall)}
    assert called == {"tree", backs[0].name}


def recursion(seed: int) -> Any:
    """A random function of a vector, a matrix and a count that calls itself once or twice."""
    rnd = Random(seed)
    plan = [(rnd.randrange(5), rnd.random(), rnd.random()) for _ in range(rnd.randint(2, 4))]
    calls = sorted(rnd.sample(range(len(plan)), rnd.randint(1, min(2, len(plan)))))
    less, data_too, first = rnd.choice([1, 2]), rnd.random() < 0.5, rnd.randrange(4)

    def step(kind: int, a: Any, b: Any, w: Any) -> Any:
        return (
            enp.tanh(a) * b,
            a * 0.5 - enp.sin(b),
            w @ a + b,
            enp.concatenate([a[1:], b[:1]]) * a.mean(),
            enp.where(a > b, a, b * b),
        )[kind]

    def deeper(x: Any, w: Any, k: Any) -> Any:
        values = [x]
        for n, (kind, one, other) in enumerate(plan):
            a, b = (values[int(p * len(values))] for p in (one, other))
            values.append(f(a, w, k - less) if n in calls else step(kind, a, b, w))
        return values[-1] + values[int(plan[0][1] * len(values))] * 0.25

    @explorer.function(result=VECTOR)
    def f(x: VECTOR, w: MATRIX, k: COUNT) -> Any:
        if k <= 0:
            return step(first, x, x * 0.5, w)
        if data_too and x[1] > 1.5:
            return x - w[0]
        return deeper(x, w, k)

    return f


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "seed",
    [pytest.param(n, marks=pytest.mark.exhaustive if n >= QUICK else ()) for n in range(PROGRAMS)],
)
def test_random_recursions(seed: int) -> None:
    draw = np.random.default_rng(seed)
    f = recursion(seed)
    for k in (1, 3):
        x, w = draw.normal(size=WIDE), draw.normal(size=(WIDE, WIDE)) * 0.5
        check(f, x, w, np.array(k), compiled=k == 3)
