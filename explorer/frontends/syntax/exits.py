"""Structured control flow: what comes after an `if` that may leave goes into the side that stays,
so that `return`, `break` and `continue` stand last and can be assignments.

    if a: return x      becomes     if a: result = x
    return y                        else: result = y
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence

MOST_GROWTH = 20  # times as many nodes: what follows is copied where both sides may leave

Replace = Callable[[ast.stmt], list[ast.stmt]]
Block = list[ast.stmt]


class Tangled(Exception):
    """Exits that stand where an assignment cannot take their place; the text says which."""


def without_exits(
    body: Sequence[ast.stmt], kinds: tuple[type[ast.stmt], ...], by: Replace
) -> Block:
    """Statements of which none is of these kinds, each replaced by others where it stood.

    Raises Tangled where one is inside of a loop, a `try`, a `with` or a `match`.
    """
    size = _size(body)
    found = _pushed(list(body), kinds, by, size)
    return found or [ast.Pass()]


def leaves(node: ast.stmt, kinds: tuple[type[ast.stmt], ...]) -> bool:
    """Whether a statement of these kinds is in another one; those of inner functions are not, and a
    `break` or `continue` of an inner loop is that loop's.
    """
    if isinstance(node, kinds):
        return True
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    if isinstance(node, ast.For | ast.While):
        kinds = tuple(k for k in kinds if k is ast.Return)
    inner = (n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt | ast.ExceptHandler))
    return any(leaves(n, kinds) for n in inner)  # type: ignore[arg-type] # handlers hold statements


def _pushed(body: Block, kinds: tuple[type[ast.stmt], ...], by: Replace, size: int) -> Block:
    found: Block = []
    for n, node in enumerate(body):
        if isinstance(node, kinds):
            return [*found, *by(node)]
        if not leaves(node, kinds):
            found.append(node)
            continue
        if not isinstance(node, ast.If):
            name = type(node).__name__.lower()
            raise Tangled(f"a {_word(node, kinds)} inside of a {name}")
        rest = body[n + 1 :]
        sides = [node.body, node.orelse]
        open_sides = [not _always(side, kinds) for side in sides]
        if all(open_sides) and size + 2 * _size(rest) > MOST_GROWTH * max(size, 50):
            raise Tangled("exits in so many branches")
        made = []
        for side, goes_on in zip(sides, open_sides):
            more = [copy.deepcopy(r) for r in rest] if all(open_sides) else rest
            grown = size + _size(rest) if all(open_sides) else size
            made.append(_pushed([*side, *(more if goes_on else ())], kinds, by, grown))
        again = ast.If(node.test, made[0] or [ast.Pass()], made[1])
        return [*found, ast.copy_location(again, node)]
    return found


def _always(body: Sequence[ast.stmt], kinds: tuple[type[ast.stmt], ...]) -> bool:
    """Whether every way through statements meets an exit."""
    for node in body:
        if isinstance(node, kinds):
            return True
        if isinstance(node, ast.If) and _always(node.body, kinds) and _always(node.orelse, kinds):
            return True
    return False


def _word(node: ast.stmt, kinds: tuple[type[ast.stmt], ...]) -> str:
    found = next((n for n in ast.walk(node) if isinstance(n, kinds)), node)
    return type(found).__name__.lower()


def _size(body: Sequence[ast.AST]) -> int:
    return sum(1 for node in body for _ in ast.walk(node))
