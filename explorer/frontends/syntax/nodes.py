"""Pieces of rewritten text."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeVar

from explorer.frontends.syntax.exits import Block

N = TypeVar("N", bound=ast.AST)
FLOW = "__ironworks__"


def function(
    name: str, params: Sequence[str], body: Block, results: Sequence[str] | None
) -> ast.FunctionDef:
    """`def name(params): body; return results`; names that came without a value have none."""
    back: Block = (
        [] if results is None else [ast.Return(tuple_of([read_later(r) for r in results]))]
    )
    return definition(name, params, [*map(unset, params), *body, *back])


def definition(name: str, params: Sequence[str], body: Block) -> ast.FunctionDef:
    """`def name(params): body`."""
    args = ast.arguments([], [ast.arg(p) for p in params], None, [], [], None, [])
    made = ast.FunctionDef(name, args, body, [], None)
    made.__dict__["type_params"] = []  # a field since Python 3.12
    return made


def unset(name: str) -> ast.stmt:
    """`if name is MISSING: del name`."""
    test = ast.Compare(load(name), [ast.Is()], [flow("MISSING")])
    return ast.If(test, [ast.Delete([ast.Name(name, ast.Del())])], [])


def assigned_from(names: Sequence[str], call: ast.expr) -> Block:
    """`names = call`; those that come without a value have none."""
    if not names:
        return [ast.Expr(call)]
    target = ast.Tuple([store(n) for n in names], ast.Store())
    return [ast.Assign([target], call), *map(unset, names)]


def read_later(name: str) -> ast.expr:
    """The value of a name, or MISSING."""
    return call("read", later(load(name)))


def later(value: ast.expr) -> ast.expr:
    """`lambda: value`."""
    nothing = ast.arguments([], [], None, [], [], None, [])
    return ast.copy_location(ast.Lambda(nothing, value), value)


def call(name: str, *args: ast.expr) -> ast.Call:
    """A call of a function of `flow`."""
    return ast.Call(flow(name), list(args), [])


def flow(name: str) -> ast.expr:
    """A name of `flow`."""
    return ast.Attribute(ast.Name(FLOW, ast.Load()), name, ast.Load())


def load(name: str) -> ast.expr:
    """A name that is read."""
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.expr:
    """A name that is bound."""
    return ast.Name(name, ast.Store())


def words(names: Sequence[str]) -> ast.expr:
    """A tuple of strings."""
    return tuple_of([ast.Constant(n) for n in names])


def tuple_of(parts: list[ast.expr]) -> ast.expr:
    """A tuple of expressions."""
    return ast.Tuple(parts, ast.Load())


def at(where: ast.AST, node: N) -> N:
    """The node, at the place of another."""
    return ast.copy_location(node, where)


def located(node: ast.stmt, where: ast.stmt) -> ast.stmt:
    """Every part of a statement that has no line yet stands at that of another."""
    for inner in ast.walk(node):
        if "lineno" in inner._attributes and not hasattr(inner, "lineno"):
            place = {"lineno": where.lineno, "col_offset": where.col_offset}
            ends = {"end_lineno": where.lineno, "end_col_offset": where.col_offset}
            for field, number in (place | ends).items():
                setattr(inner, field, number)
    return node
