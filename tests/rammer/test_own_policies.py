"""Rammer's policies of one's own: a bad one ends in one sentence that names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from explorer.errors import BadOption, BadPolicy
from explorer.rammer import (
    Facts,
    Options,
    Placement,
    ROperator,
    RTask,
    Share,
    VDevice,
    schedule,
)
from tests.rammer.schedule_builder import Builder

FACTS = Facts((ROperator("a", 2, 1.0), ROperator("b", 1, 1.0, (0,))), VDevice(2))


def placed(*shares: Any) -> Placement:
    return Placement((tuple(Share(*s) for s in shares),))


def twice(facts: Facts) -> Placement:
    builder = Builder(facts)
    builder.append(RTask(0, 0), 0)
    builder.append(RTask(0, 0), 1)
    return builder.placement()


BAD: dict[str, tuple[Callable[..., Any], str]] = {
    "None": (lambda f: None, "returned None, and must return a Placement"),
    "a list": (lambda f: [1], "returned a list, and must return a Placement"),
    "programs that are none": (lambda f: Placement(3), "returned an int for the programs"),  # type: ignore[arg-type]
    "shares that are none": (lambda f: Placement(((1, 2),)), "returned an int among its shares"),  # type: ignore[arg-type]
    "half a task": (lambda f: placed((0, 0, 0, 1.5)), "not of integers"),
    "true as a unit": (lambda f: placed((0, True, 0, 2)), "not of integers"),
    "candidates that are none": (
        lambda f: Placement(placed((0, 0, 0, 2), (1, 0, 0, 1)).programs, ("first",)),  # type: ignore[arg-type]
        "returned a str among its candidates",
    ),
    "nothing": (lambda f: Placement(()), "placed 0 of the 2 tasks of a"),
    "a task left out": (lambda f: placed((0, 0, 0, 2)), "placed 0 of the 1 tasks of b"),
    "a task twice": (
        lambda f: placed((0, 0, 0, 2), (0, 1, 1, 2), (1, 0, 0, 1)),
        "task placed once",
    ),
    "a task too many": (lambda f: placed((0, 0, 0, 3)), "impossible share"),
    "a unit that there is not": (lambda f: placed((0, 2, 0, 2)), "impossible share"),
    "an operator that there is not": (lambda f: placed((7, 0, 0, 2)), "a share of no operator"),
    "an implementation that there is not": (
        lambda f: placed((0, 0, 0, 2, 5)),
        "a has no implementation 5",
    ),
    "a reader first": (lambda f: placed((1, 0, 0, 1), (0, 0, 0, 2)), "placed b before a"),
    "a task appended twice": (twice, "task 0 of a is on unit 0 already"),
    "an error": (lambda f: 1 // 0, "failed: ZeroDivisionError"),
    "too few parameters": (lambda: None, "failed: TypeError"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_policy_ends_in_one_sentence(what: str) -> None:
    policy, rule = BAD[what]
    with pytest.raises(BadPolicy, match=rule) as told:
        schedule(FACTS, Options(policy=policy))
    sentence = told.value.sentence
    assert f"Rammer's policy {policy.__name__!r}" in sentence
    assert "\n" not in sentence and len(sentence) < 500


def test_numbers_of_numpy_are_numbers() -> None:
    def policy(facts: Facts) -> Placement:
        return placed((0, np.int64(0), 0, np.int32(2)), (1, 0, 0, 1))

    assert schedule(FACTS, Options(policy=policy)).wall.total_us == 3.0


def test_what_is_no_policy_is_refused_when_options_are_made() -> None:
    with pytest.raises(BadOption, match=r"rammer\.policy is a function or one of"):
        Options(policy=[])  # type: ignore[arg-type]
