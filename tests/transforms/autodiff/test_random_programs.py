"""Random programs with nested branches and loops: gradients against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import explorer.np as enp
from tests.examples import examples
from tests.strategies.arrays.statements import N, Statement, run, statements
from tests.transforms.autodiff.finite import check


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
