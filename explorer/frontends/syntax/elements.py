"""`x[i] = y` as an assignment of x: what changes elements of a name is carried as the name is.

x[i] = y     ->  x = flow.changed(x, (), i, y)
x[a][i] += y ->  x = flow.renewed(x, (a,), i, y, "Add")
"""

from __future__ import annotations

import ast

from explorer.frontends.syntax.expressions import Expressions
from explorer.frontends.syntax.nodes import at, call, load, store, tuple_of


def assigned(s: ast.Assign | ast.AugAssign, name: str) -> ast.stmt:
    """The statement, which changes elements of the name, as one that binds the name."""
    target = s.targets[0] if isinstance(s, ast.Assign) else s.target
    *path, place = [Expressions().visit(_index(i)) for i in _indices(target)]
    given = [load(name), tuple_of(path), place, Expressions().visit(s.value)]
    if isinstance(s, ast.Assign):
        made = call("changed", *given)
    else:
        made = call("renewed", *given, ast.Constant(type(s.op).__name__))
    return at(s, ast.Assign([store(name)], made))


def _indices(target: ast.expr) -> list[ast.expr]:
    """The indices of a subscript, and of what it is of, the first one first."""
    return [*_indices(target.value), target.slice] if isinstance(target, ast.Subscript) else []


def _index(index: ast.expr) -> ast.expr:
    """An index as a value: what can only stand in brackets is a call."""
    match index:
        case ast.Slice(lower, upper, step):
            parts = (ast.Constant(None) if p is None else p for p in (lower, upper, step))
            return at(index, call("slice_", *parts))
        case ast.Tuple(parts):
            return at(index, tuple_of([_index(p) for p in parts]))
    return index


class OneByOne(ast.NodeTransformer):
    """`x[i], y = a, b` as an assignment of each: the values are there before the first one."""

    def __init__(self) -> None:
        self.count = 0

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        match node.targets:
            case [ast.Tuple(parts) | ast.List(parts)]:
                pass
            case _:
                return node
        plain = not any(isinstance(p, ast.Starred) for p in parts)
        if not plain or not any(isinstance(p, ast.Subscript) for p in parts):
            return node
        names = [f"_part_{self.count + n}" for n in range(len(parts))]
        self.count += len(names)
        target = ast.Tuple([store(n) for n in names], ast.Store())
        first = at(node, ast.Assign([target], node.value))
        pairs = zip(parts, names, strict=True)
        return [first, *(at(node, ast.Assign([part], load(name))) for part, name in pairs)]
