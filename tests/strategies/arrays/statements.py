"""Statements over two vectors, with nested branches, scans and whiles between them."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer
import explorer.np as enp
from tests.strategies.choices import Choices, generator

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


@generator
def statements(c: Choices, depth: int) -> list[Statement]:
    """Up to four statements, nested `depth` deep at most."""
    return [_statement(c, depth) for _ in range(c.number(1, 4))]


def _statement(c: Choices, depth: int) -> Statement:
    if depth and c.chance(0.33):
        name = c.one(["branch", "scan", "while"])
        return name, tuple(statements.make(c, depth - 1) for _ in range(2))
    return c.one(sorted(PLAIN)), None


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
