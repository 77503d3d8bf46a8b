"""Checks of library patterns of one's own: a bad one ends in one sentence that names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from explorer.errors import BadPolicy
from explorer.ir.program import Program
from explorer.relax.dispatch import Dispatch, LibraryPattern
from explorer.relax.graph_patterns import Op
from tests.relax.test_dispatch import node, typed

BAD: dict[str, tuple[Callable[..., Any], str]] = {
    "None": (lambda m: None, "returned None, not the reason"),
    "True": (lambda m: True, "returned a bool"),
    "False": (lambda m: False, "returned a bool"),
    "a number": (lambda m: 3, "returned an int"),
    "bytes": (lambda m: b"no", "returned a bytes"),
    "a list": (lambda m: ["no"], "returned a list"),
    "the match": (lambda m: m, "returned a Match"),
    "an error": (lambda m: m.args[99], "failed: IndexError"),
    "an assertion": (
        lambda m: (_ for _ in ()).throw(AssertionError("x")),
        "failed: AssertionError",
    ),
    "an exit": (lambda m: exit(1), "failed: SystemExit"),
    "too few parameters": (lambda: "", "failed: TypeError"),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder: Path = tmp_path_factory.mktemp("checks")
    return typed(folder, [node("Neg", ["x"], "y")])


@pytest.mark.parametrize("what", BAD)
def test_a_bad_check_ends_in_one_sentence(what: str, program: Program) -> None:
    check, rule = BAD[what]
    pattern = LibraryPattern("mylib", "neg", Op("Neg"), check)
    with pytest.raises(BadPolicy, match=rule) as told:
        Dispatch((pattern,))(program)
    sentence = told.value.sentence
    assert "Relax's policy '<lambda>', called for 'y' for mylib.neg," in sentence
    assert "\n" not in sentence and len(sentence) < 400
