"""AST constructors for rewritten code."""

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
    """Return `def name(params): body; return results`; parameters may be unbound."""
    back: Block = (
        [] if results is None else [ast.Return(tuple_of([read_later(r) for r in results]))]
    )
    return definition(name, params, [*map(unbind, params), *body, *back])


def definition(name: str, params: Sequence[str], body: Block) -> ast.FunctionDef:
    """Return `def name(params): body`."""
    args = ast.arguments([], [ast.arg(p) for p in params], None, [], [], None, [])
    function = ast.FunctionDef(name, args, body, [], None)
    function.__dict__["type_params"] = []  # a field since Python 3.12
    return function


def unbind(name: str) -> ast.stmt:
    """Return `if name is MISSING: del name`."""
    test = ast.Compare(load(name), [ast.Is()], [flow("MISSING")])
    return ast.If(test, [ast.Delete([ast.Name(name, ast.Del())])], [])


def assigned_from(names: Sequence[str], call: ast.expr) -> Block:
    """Return `names = call`, which unbinds names that come back as MISSING."""
    if not names:
        return [ast.Expr(call)]
    target = ast.Tuple([store(n) for n in names], ast.Store())
    return [ast.Assign([target], call), *map(unbind, names)]


def read_later(name: str) -> ast.expr:
    """Return an expression for the value of a name, or MISSING."""
    return call("read", later(load(name)))


def later(value: ast.expr) -> ast.expr:
    """Return `lambda: value`."""
    nothing = ast.arguments([], [], None, [], [], None, [])
    return ast.copy_location(ast.Lambda(nothing, value), value)


def call(name: str, *args: ast.expr) -> ast.Call:
    """Return a call of a function of `flow`."""
    return ast.Call(flow(name), list(args), [])


def flow(name: str) -> ast.expr:
    """Return an attribute of `flow`."""
    return ast.Attribute(ast.Name(FLOW, ast.Load()), name, ast.Load())


def load(name: str) -> ast.expr:
    """Return a name that is read."""
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.expr:
    """Return a name that is bound."""
    return ast.Name(name, ast.Store())


def words(names: Sequence[str]) -> ast.expr:
    """Return a tuple of string constants."""
    return tuple_of([ast.Constant(n) for n in names])


def tuple_of(parts: list[ast.expr]) -> ast.expr:
    """Return a tuple of expressions."""
    return ast.Tuple(parts, ast.Load())


def at(where: ast.AST, node: N) -> N:
    """Return the node with the source position of another."""
    return ast.copy_location(node, where)


def fill_positions(node: ast.stmt, where: ast.stmt) -> ast.stmt:
    """Give the parts of a statement that have no position the position of another statement."""
    for inner in ast.walk(node):
        if "lineno" in inner._attributes and not hasattr(inner, "lineno"):
            place = {"lineno": where.lineno, "col_offset": where.col_offset}
            ends = {"end_lineno": where.lineno, "end_col_offset": where.col_offset}
            for field, number in (place | ends).items():
                setattr(inner, field, number)
    return node
