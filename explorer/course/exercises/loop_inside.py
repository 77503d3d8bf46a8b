"""Exercise: a loop in the program."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile
from explorer.course.exercise import Check, Exercise, require
from explorer.course.plain_values import decode, encode
from explorer.course.replay import receive_model, send_model
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor
from explorer.process.counters import counters

COMPILED = 4  # programs in memory; chosen


def _inputs(size: int, seed: int) -> dict[str, np.ndarray]:
    """Return a matrix and a vector of a seed.

    The symmetric part of the matrix is at least the identity, so no product shortens a vector and
    rounding errors stay small. The other part tells the matrix from its transpose.
    """
    rng = np.random.default_rng(seed)
    half, skew = rng.normal(size=(2, size, size))
    a = half @ half.T / size + np.eye(size) + (skew - skew.T) / 2
    return {"a": a.astype(np.float32), "x": np.ones((size, 1), np.float32)}


def _expected(inputs: dict[str, np.ndarray], k: int) -> np.ndarray:
    a, x = (inputs[name].astype(np.float64) for name in ("a", "x"))
    for _ in range(k):
        x = a @ x
        x = x / np.sqrt((x * x).sum())
    return x


def _record_model(answer: Any) -> Any:
    return send_model(load(answer))


def _like(a: Any, x: Any, k: Any) -> Any:
    return x


def _compiled(answer: Any) -> Any:
    """Compile the program of an answer."""
    return _compiled_program(encode(answer.run(_record_model)))


@lru_cache(maxsize=COMPILED)
def _compiled_program(sent: bytes) -> Any:
    """Compile the program of a text; its checks differ in inputs alone."""
    like = trace(_like)(tensor("float32", "n", "n"), tensor("float32", "n", 1), tensor("int64"))
    return compile(receive_model(decode(sent), load(like)), options=Options(registered=False))


def _check_values(answer: Any, seed: int) -> None:
    c = _compiled(answer)
    for size, k in ((1, 3), (7, 0), (8, 1), (16, 20)):
        inputs = _inputs(size, seed)
        got = next(iter(c.run({**inputs, "k": np.array(k)}).values()))
        expected = _expected(inputs, k)
        require(got.shape == expected.shape, f"the result is {got.shape}, not {expected.shape}")
        off = float(np.abs(got - expected).max())
        require(off < 1e-3, f"{size} by {size}, {k} iterations: off by {off:.2g}")


def _check_counters(answer: Any, seed: int) -> None:
    c = _compiled(answer)
    inputs = _inputs(8, seed)
    c.run({**inputs, "k": np.array(2)})
    with counters.delta() as did:
        for k in (3, 50):
            c.run({**inputs, "k": np.array(k)})
    seen = did.counts
    require(seen.kernel_compiles == 0, f"{seen.kernel_compiles} kernels compiled for another k")
    require(seen.host_reads == 0, f"Python read {seen.host_reads} values of iterations")


LOOP_INSIDE = Exercise(
    name="loop_inside",
    chapter="09_control_flow",
    title="A loop in the program",
    goal="Power iteration: `k` times, `x` becomes `a @ x` divided by its length. Write it as a "
    "traced function whose loop is part of the program. One compilation serves every `k`, "
    "and Python reads no value during a run.",
    answer="power_iteration",
    stub="""\
import explorer
from explorer import np as enp
from explorer import tensor


@explorer.trace
def power_iteration(
    a: tensor("float32", "n", "n"), x: tensor("float32", "n", 1), k: tensor("int64")
):
    raise NotImplementedError
""",
    solution="""\
import explorer
from explorer import np as enp
from explorer import tensor


@explorer.trace
def power_iteration(
    a: tensor("float32", "n", "n"), x: tensor("float32", "n", 1), k: tensor("int64")
):
    for _ in range(k):
        x = a @ x
        x = x / enp.sqrt((x * x).sum())
    return x
""",
    hints=(
        "If `k` is known only at run time, Python's own `for _ in range(k)` becomes a loop of the "
        "program.",
        "A value that one iteration changes and the next one reads is a state: here only `x`.",
        "The length of a vector is `enp.sqrt((x * x).sum())`.",
    ),
    checks=(
        Check("the values of NumPy, also for no iteration", 2, _check_values),
        Check("no compilation for another k, no value read by Python", 2, _check_counters),
        Check("other matrices", 1, lambda answer, seed: _check_values(answer, seed + 1), True),
    ),
    exit_question="How many barriers does an iteration have on two cores, and what decides it?",
)
