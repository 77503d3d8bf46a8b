"""Random programs with nested branches and loops: gradients against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import explorer
import explorer.np as enp
from tests.autodiff.finite import check
from tests.examples import examples

N = 3
WEIGHTS = np.random.default_rng(3).normal(size=(N, N))
PLAIN = {
    "product": lambda a, b: (a * b, b),
    "tanh": lambda a, b: (enp.tanh(a) + b, b),
    "matmul": lambda a, b: (enp.sin(a @ WEIGHTS), b),
    "shifted": lambda a, b: (enp.concatenate([a[1:], b[:1]]), b),
    "gathered": lambda a, b: (a[np.array([2, 0, 0])], b),
    "exchanged": lambda a, b: (b, a * 0.5),
    "centred": lambda a, b: (a - a.mean(), b),
    "outer": lambda a, b: ((a.reshape(N, 1) * b).sum(axis=0), b),
    "softmax": lambda a, b: (enp.softmax(a, axis=0), b),
    "summed": lambda a, b: (enp.cumsum(a, axis=0), b),
    "backwards": lambda a, b: (a[::-1], b),
    "divided": lambda a, b: (a / (b * b + 1), b),
    "padded": lambda a, b: (enp.pad(a[1:], ((0, 1),)), b),
}
Statement = tuple[str, Any]


def statements(depth: int) -> st.SearchStrategy[list[Statement]]:
    plain = st.tuples(st.sampled_from(sorted(PLAIN)), st.none())
    if depth == 0:
        return st.lists(plain, min_size=1, max_size=4)
    inner = statements(depth - 1)
    nested = st.tuples(st.sampled_from(["branch", "scan", "while"]), st.tuples(inner, inner))
    return st.lists(st.one_of(plain, plain, nested), min_size=1, max_size=4)


def run(lines: list[Statement], a: Any, b: Any) -> tuple[Any, Any]:
    for name, inner in lines:
        a, b = PLAIN[name](a, b) if inner is None else nested(name, *inner, a, b)
    return a, b


def nested(name: str, first: list[Statement], second: list[Statement], a: Any, b: Any) -> Any:
    if name == "branch":
        taken = a.sum() > 0.1
        return explorer.cond(taken, lambda: run(first, a, b), lambda: run(second, a, b))
    if name == "scan":

        def body(h: Any, row: Any) -> Any:
            h, other = run(first, h, row)
            return enp.tanh(h), other * b

        last, rows = explorer.scan(body, a, enp.stack([a, b, a]))
        return last, rows.mean(axis=0)

    def step(count: Any, a: Any, b: Any) -> Any:
        a, b = run(first, a, b)
        return count + 1, enp.tanh(a), enp.tanh(b)

    start = enp.zeros((), "int64")
    return explorer.while_loop(lambda count, a, b: count < 2, step, start, a, b)[1:]


def agrees(lines: list[Statement], seed: int, compiled: bool) -> None:
    draw = np.random.default_rng(seed)

    def f(a: Any, b: Any) -> Any:
        a, b = run(lines, a, b)
        return enp.concatenate([a, b])

    check(f, draw.normal(size=N), draw.normal(size=N), compiled=compiled)


QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=20, **QUIET)
@given(lines=statements(2), seed=st.integers(0, 2**32))
def test_gradients_of_random_programs(lines: list[Statement], seed: int) -> None:
    agrees(lines, seed, compiled=False)


def test_gradients_of_a_steep_program() -> None:
    """Its third derivatives are billions: central differences of one step are too far off."""
    inner = [("summed", None), ("matmul", None), ("gathered", None)]
    turned = [("backwards", None)]
    agrees([("scan", ([("scan", (inner, turned))], turned))], 0, compiled=False)


@settings(max_examples=examples(6, few=2), **QUIET)
@given(lines=statements(1), seed=st.integers(0, 2**32))
def test_and_compiled(lines: list[Statement], seed: int) -> None:
    agrees(lines, seed, compiled=True)


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
@settings(max_examples=examples(500), **QUIET)
@given(lines=statements(2), seed=st.integers(0, 2**32))
def test_gradients_of_five_hundred_random_programs(lines: list[Statement], seed: int) -> None:
    agrees(lines, seed, compiled=False)
