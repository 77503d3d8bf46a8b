"""Names and docstrings say what a thing is, in the words of the field."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(file for room in ("explorer", "widgets") for file in (ROOT / room).rglob("*.py"))
# They name the act of asking for a thing, or its place beside others: no reader finds it by them.
WORDS = frozenset(
    (
        *("again", "asked", "found", "given", "held", "kept", "known", "lent", "made", "one"),
        *("rest", "said", "side", "sides", "told", "way", "whole"),
    )
)
NUMPY = ("explorer/frontends/python/arrays/run_time.py", "side")  # a parameter of `searchsorted`
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
OPENINGS = ("What ", "Whether ", "None of ", "Such ", "Whose ", "Whom ")


def identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each name that a module gives to something, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)) | ast.alias(asname=str(name)):
                yield node.lineno, name


def offending(text: str) -> list[tuple[int, str]]:
    """Return the names in a text that are nothing but one of the words."""
    found = identifiers(ast.parse(text))
    return [(line, n) for line, n in found if n.strip("_").lower() in WORDS and not n.isupper()]


def openings(text: str) -> list[tuple[int, str]]:
    """Return the docstrings in a text that begin with a question or a relative clause."""
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, DOCUMENTED)]
    every = [(getattr(n, "lineno", 1), ast.get_docstring(n) or "") for n in nodes]
    return [(line, words[:60]) for line, words in every if words.startswith(OPENINGS)]


def test_no_name_is_a_word_that_says_nothing() -> None:
    found = {str(f.relative_to(ROOT)): offending(f.read_text("utf-8")) for f in FILES}
    found[NUMPY[0]] = [row for row in found[NUMPY[0]] if row[1] != NUMPY[1]]
    assert not {name: lines for name, lines in found.items() if lines}


def test_no_docstring_begins_with_a_question() -> None:
    found = {str(f.relative_to(ROOT)): openings(f.read_text("utf-8")) for f in FILES}
    assert not {name: lines for name, lines in found.items() if lines}


@pytest.mark.parametrize(
    "text",
    [
        "found = 1",
        "def f(*, known): ...",
        "def _told(): ...",
        "class Kept: ...",
        "for x, *rest in y: ...",
        "class C:\n    way: int",
        "self._held = 1",
        "match x:\n    case [a, *whole]: ...",
        "match x:\n    case int() as given: ...",
        "import numpy as one",
    ],
)
def test_a_name_of_any_kind_is_seen(text: str) -> None:
    assert offending(text)


def test_names_that_say_something_are_left_alone() -> None:
    assert not offending("known_sizes, foundation = 1, 2\nprint(found.given)")
    assert openings('"""What a module does."""') and not openings('"""Whatever: a table."""')
