"""Structured control flow: early exits become assignments.

The statements after an `if` with an exit move into the arm that falls through. So `return`, `break`
and `continue` come last and can be replaced by assignments.

    if a: return x      becomes     if a: result = x
    return y                        else: result = y
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence

MOST_GROWTH = 20  # limit of code growth: statements are copied if both arms may fall through

Replace = Callable[[ast.stmt], list[ast.stmt]]
Block = list[ast.stmt]


class IrreducibleExit(Exception):
    """Error for an exit that an assignment cannot replace; the text names it."""


def without_exits(
    body: Sequence[ast.stmt], kinds: tuple[type[ast.stmt], ...], by: Replace
) -> Block:
    """Return statements without exits of these kinds, each replaced by `by` where it stood.

    Raises IrreducibleExit if one is inside of a loop, a `try`, a `with` or a `match`.
    """
    size = _size(body)
    statements = _push_into_arms(list(body), kinds, by, size)
    return statements or [ast.Pass()]


def leaves(node: ast.stmt, kinds: tuple[type[ast.stmt], ...]) -> bool:
    """Return True if a statement contains one of these kinds.

    Inner functions are not searched. A `break` or `continue` of an inner loop belongs to that loop.
    """
    if isinstance(node, kinds):
        return True
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    if isinstance(node, ast.For | ast.While):
        kinds = tuple(k for k in kinds if k is ast.Return)
    inner = (n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt | ast.ExceptHandler))
    return any(leaves(n, kinds) for n in inner)  # type: ignore[arg-type] # handlers hold statements


def _push_into_arms(
    body: Block, kinds: tuple[type[ast.stmt], ...], by: Replace, size: int
) -> Block:
    done: Block = []
    for n, node in enumerate(body):
        if isinstance(node, kinds):
            return [*done, *by(node)]
        if not leaves(node, kinds):
            done.append(node)
            continue
        if not isinstance(node, ast.If):
            name = type(node).__name__.lower()
            raise IrreducibleExit(f"a {_exit_name(node, kinds)} inside of a {name}")
        following = body[n + 1 :]
        arms = [node.body, node.orelse]
        falls_through = [not _always_exits(arm, kinds) for arm in arms]
        if all(falls_through) and size + 2 * _size(following) > MOST_GROWTH * max(size, 50):
            raise IrreducibleExit("exits in too many branches")
        new_arms = []
        for arm, continues in zip(arms, falls_through):
            more = [copy.deepcopy(r) for r in following] if all(falls_through) else following
            grown = size + _size(following) if all(falls_through) else size
            new_arms.append(_push_into_arms([*arm, *(more if continues else ())], kinds, by, grown))
        branch = ast.If(node.test, new_arms[0] or [ast.Pass()], new_arms[1])
        return [*done, ast.copy_location(branch, node)]
    return done


def _always_exits(body: Sequence[ast.stmt], kinds: tuple[type[ast.stmt], ...]) -> bool:
    """Return True if every path through the statements meets an exit."""
    for node in body:
        if isinstance(node, kinds):
            return True
        if (
            isinstance(node, ast.If)
            and _always_exits(node.body, kinds)
            and _always_exits(node.orelse, kinds)
        ):
            return True
    return False


def _exit_name(node: ast.stmt, kinds: tuple[type[ast.stmt], ...]) -> str:
    exit_ = next((n for n in ast.walk(node) if isinstance(n, kinds)), node)
    return type(exit_).__name__.lower()


def _size(body: Sequence[ast.AST]) -> int:
    return sum(1 for node in body for _ in ast.walk(node))
