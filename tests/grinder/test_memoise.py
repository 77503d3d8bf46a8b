"""Calls that a run keeps: as often as arguments differ, and no other answer than without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
from explorer import tensor
from explorer.compiler.compilation import Compilation
from explorer.errors import BadOption
from explorer.grinder import Options as Grinder
from explorer.runtime.frames import MOST_COMPARED_BYTES, MemoizedCalls

VECTOR, COUNT = tensor("float32", 3), tensor("int64")


@explorer.function(result=VECTOR)
def fibonacci(x: VECTOR, k: COUNT) -> Any:
    if k < 2:
        return x * 1.0
    return fibonacci(x, k - 1) + fibonacci(x, k - 2)


@explorer.trace
def numbers(x: VECTOR, k: COUNT) -> Any:
    return fibonacci(x, k)


def compiled(memoise: bool) -> Compilation:
    options = explorer.Options(grinder=Grinder(memoise=memoise, depth=40))
    return explorer.compile(numbers, options=options)


def calls(c: Compilation, k: int) -> int:
    ran = c.measured_wall({"x": np.ones(3, np.float32), "k": np.int64(k)}).ran
    return sum(r.trips for r in ran if r.kind == "call")


def test_each_call_is_made_once() -> None:
    kept, plain = compiled(True), compiled(False)
    assert calls(kept, 12) == 13
    assert calls(plain, 12) == 465  # twice the 13th number less one


@pytest.mark.parametrize("k", [0, 1, 2, 9, 60])
def test_the_numbers_are_the_same(k: int) -> None:
    """The last of these would need 5,000,000,000,000 calls."""
    a, b = 1.0, 1.0
    for _ in range(max(0, k - 1)):
        a, b = b, a + b
    c = explorer.compile(
        numbers, options=explorer.Options(grinder=Grinder(memoise=True, depth=100))
    )
    found = c.run({"x": np.ones(3, np.float32), "k": np.int64(k)})["output"]
    np.testing.assert_allclose(found, np.full(3, b), rtol=1e-5)


def test_another_run_keeps_nothing_of_the_one_before() -> None:
    c = compiled(True)
    for scale in (1.0, 2.0):
        found = c.run({"x": np.full(3, scale, np.float32), "k": np.int64(8)})["output"]
        np.testing.assert_array_equal(found, np.full(3, 34 * scale, np.float32))


def test_the_tree_says_why_python_follows_the_calls() -> None:
    tree = compiled(True).program.decisions.tasks
    assert tree is not None and "grinder.memoise" in str(tree)
    assert "grinder.memoise" not in str(compiled(False).program.decisions.tasks)


def test_arguments_are_one_by_their_bits() -> None:
    kept = MemoizedCalls()
    zero, nan = np.zeros(2, np.float32), np.full(2, np.nan, np.float32)
    assert kept.key("f", [nan], None) == kept.key("f", [nan.copy()], None)
    assert kept.key("f", [zero], None) != kept.key("f", [-zero], None)
    assert kept.key("f", [zero], None) != kept.key("f", [zero.astype(np.int32)], None)
    assert kept.key("f", [zero], None) != kept.key("g", [zero], None)
    assert kept.key("f", [zero], {"n": 2}) != kept.key("f", [zero], {"n": 3})
    large = np.zeros(MOST_COMPARED_BYTES, np.float32)
    assert kept.key("f", [large], None) == kept.key("f", [large], None)
    assert kept.key("f", [large], None) != kept.key("f", [large.copy()], None)
    assert any(held is large for held in kept.pinned.values())


def test_it_is_a_switch() -> None:
    assert not Grinder().memoise
    with pytest.raises(BadOption, match="memoise"):
        Grinder(memoise="yes")  # type: ignore[arg-type]
