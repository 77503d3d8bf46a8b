"""`x[i] = y` rewritten as an assignment of x, so that element changes are carried like names.

x[i] = y     ->  x = flow.assign_element(x, (), i, y)
x[a][i] += y ->  x = flow.augment_element(x, (a,), i, y, "Add")
"""

from __future__ import annotations

import ast

from explorer.frontends.syntax.expressions import Expressions
from explorer.frontends.syntax.nodes import at, call, load, store, tuple_of


def as_assignment(s: ast.Assign | ast.AugAssign, name: str) -> ast.stmt:
    """Return a statement that changes elements of a name as one that binds the name."""
    target = s.targets[0] if isinstance(s, ast.Assign) else s.target
    *path, place = [Expressions().visit(_index(i)) for i in _indices(target)]
    arguments = [load(name), tuple_of(path), place, Expressions().visit(s.value)]
    if isinstance(s, ast.Assign):
        value = call("assign_element", *arguments)
    else:
        value = call("augment_element", *arguments, ast.Constant(type(s.op).__name__))
    return at(s, ast.Assign([store(name)], value))


def _indices(target: ast.expr) -> list[ast.expr]:
    """Return the indices of nested subscripts, outermost object first."""
    return [*_indices(target.value), target.slice] if isinstance(target, ast.Subscript) else []


def _index(index: ast.expr) -> ast.expr:
    """Return an index as an expression; slices become calls."""
    match index:
        case ast.Slice(lower, upper, step):
            parts = (ast.Constant(None) if p is None else p for p in (lower, upper, step))
            return at(index, call("slice_", *parts))
        case ast.Tuple(parts):
            return at(index, tuple_of([_index(p) for p in parts]))
    return index


class SplitTupleAssignments(ast.NodeTransformer):
    """Transformer of `x[i], y = a, b` to one assignment each; all values are evaluated first."""

    def __init__(self) -> None:
        """Start the count of temporaries at 0."""
        self.count = 0

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        """Split a tuple assignment that has a subscript among its targets."""
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
