"""Branches of which both sides are computed: with the same results, and where that is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.compiler.compilation import Compilation
from explorer.grinder import Options as Grinder
from explorer.ir.calls import Branch
from explorer.ir.decisions.control import ControlDecision

tensor = explorer.tensor


def compiled(run: Callable[..., Any], **options: Any) -> Compilation:
    made = explorer.compile(explorer.load(explorer.trace(run)), check=True)
    return made.with_options(grinder=Grinder(**options)) if options else made


def branches(c: Compilation) -> int:
    return sum(isinstance(b.expr, Branch) for _, b in c.program.bindings())


def decided(c: Compilation) -> ControlDecision:
    (found,) = (d for d in c.program.decisions.control if d.kind == "branch")
    return found


def small(x: tensor("float32", 4)) -> Any:
    if x.sum() > 0:
        return xp.sqrt(x), x * 2
    return x - 1, x / x


def test_small_sides_are_both_computed_and_nan_stays_on_its_side() -> None:
    c = compiled(small)
    assert branches(c) == 0 and decided(c).chosen.words == "both sides"
    with np.errstate(all="ignore"):
        for x in ([1, 2, 3, 4], [-1, 0, -2, 0.5], [np.nan] * 4, [np.inf, -1, 1, 1]):
            given = np.array(x, np.float32)
            for found, wanted in zip(c.run(given).values(), small(given), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-6)
    with explorer.counters.delta() as did:
        c.run(np.ones(4, np.float32))
    assert did.host_reads == 0


def test_a_branch_in_a_branch_goes_first() -> None:
    def run(x: tensor("float32", 4)) -> Any:
        if x.sum() > 0:
            if x[0] > 1:
                x = x + 2
            else:
                x = -x
        return x * 3

    c = compiled(run)
    assert branches(c) == 0
    for x in ([1, 2, 3, 4], [0, 2, 3, 4], [-9, 2, 3, 0]):
        given = np.array(x, np.float32)
        np.testing.assert_allclose(c.run(given)["output"], run(given))


def large(x: tensor("float32", 512, 512)) -> Any:
    if x[0, 0] > 0:
        x = x @ x
    else:
        x = xp.tanh(x)
    return x


def test_large_sides_are_not_both_computed_and_the_decision_says_what_it_would_cost() -> None:
    c = compiled(large)
    assert branches(c) == 1
    found = decided(c)
    costs = {w.label: w.cost_us for w in found.candidates}
    assert found.chosen.words == "device" == found.candidates[0].value.words
    assert costs["both sides"] > costs["in the program"]


def by_data(x: tensor("float32", 4), i: tensor("int64")) -> Any:
    if i < 4:
        return x[i]
    return x[0] * 2


def looped(x: tensor("float32", 4), i: tensor("int64")) -> Any:
    if i < 4:
        for _ in range(i):
            x = x * 2
    return x


REFUSED = {by_data: "has data-dependent reads", looped: "is not a kernel"}


@pytest.mark.parametrize("run", REFUSED, ids=lambda r: r.__name__)
def test_a_side_that_its_condition_guards_is_not_computed_unasked(run: Callable[..., Any]) -> None:
    c = compiled(run)
    assert branches(c) == 1
    (refused,) = (w.refused for w in decided(c).candidates if w.value.level == "both")
    assert REFUSED[run] in refused
    x = np.arange(4, dtype=np.float32)
    for i in (0, 3, 4, 9):
        np.testing.assert_allclose(c.run(x, np.int64(i))["output"], run(x, np.int64(i)))


@pytest.mark.parametrize(
    "options", [{"inline_branches": False}, {"schedule": "device"}, {"schedule": "host"}]
)
def test_a_branch_stays_one_where_that_was_asked_for(options: dict[str, Any]) -> None:
    c = compiled(small, **options)
    assert branches(c) == 1
    with explorer.counters.delta() as did:
        found = c.run(np.ones(4, np.float32))
    assert did.host_reads == (options.get("schedule") == "host")
    np.testing.assert_array_equal(found["output_0"], np.ones(4, np.float32))
