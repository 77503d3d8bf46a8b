"""Policies of levels of one's own: a bad one ends in one sentence that names the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from explorer.errors import BadPolicy
from explorer.grinder import lowest, on_host, task_tree, uprogram
from tests.grinder.test_grind import nested
from tests.runtime.test_control_flow import with_library

BAD: dict[str, tuple[Callable[..., Any], str]] = {
    "None": (lambda body: None, "returned None, and must return a level and a reason"),
    "a level alone": (lambda body: "host", "returned 'host', and must return a level and a reason"),
    "three words": (lambda body: ("host", "a", "b"), "must return a level and a reason"),
    "a reason that is no text": (lambda body: ("host", 3), "must return a level and a reason"),
    "a level that is no text": (lambda body: (1, "x"), "must return a level and a reason"),
    "a level that there is not": (lambda body: ("unit", "x"), "returned the level 'unit'"),
    "a control character": (lambda body: ("\x1b[31m", "x"), r"returned the level '\\x1b"),
    "an empty level": (lambda body: ("", ""), "returned the level ''"),
    "a list": (lambda body: ["host", "x"], "must return a level and a reason"),
    "an error": (lambda body: body[99], "failed: IndexError"),
    "too few parameters": (lambda: ("host", "x"), "failed: TypeError"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_policy_ends_in_one_sentence(what: str) -> None:
    policy, rule = BAD[what]
    with pytest.raises(BadPolicy, match=rule) as told:
        uprogram(nested(), policy)
    sentence = told.value.sentence
    assert "Grinder's policy '<lambda>', called for '" in sentence
    assert "\n" not in sentence and "\x1b" not in sentence and len(sentence) < 400


def test_what_calls_python_is_not_put_on_the_device() -> None:
    _, program = with_library(3)
    with pytest.raises(BadPolicy, match=r"put it on the device, and .* runs in Python"):
        uprogram(program, lambda body: ("device", "I say so"))


def test_a_sound_policy_of_ones_own_is_taken() -> None:
    def mine(body: Any) -> tuple[str, str]:
        return lowest(body) if len(body) > 1 else on_host(body)

    assert "host" in {tree.level for tree in task_tree(nested(), mine).parts}
