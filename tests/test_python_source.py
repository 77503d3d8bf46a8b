"""Python source is parsed while other threads parse."""

from __future__ import annotations

import ast

import pytest

from explorer import python_source


def test_a_parse_that_another_thread_disturbs_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, whole = [], ast.parse

    def disturbed(source: str) -> ast.Module:
        calls.append(source)
        if len(calls) < 3:
            raise SystemError("AST constructor recursion depth mismatch (before=15, after=-40)")
        return whole(source)

    monkeypatch.setattr(ast, "parse", disturbed)
    tree = python_source.parse("x = 1")
    assert len(calls) == 3 and ast.unparse(tree) == "x = 1"


def test_an_error_in_the_source_is_raised_at_once() -> None:
    with pytest.raises(SyntaxError):
        python_source.parse("x = (")
