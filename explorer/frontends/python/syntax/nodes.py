"""AST constructors for rewritten code, and rewriting of expressions and element assignments.

`and`, `or`, `not`, chained comparisons, `a if c else b` and loop iterables become calls. `x[i] = y`
becomes an assignment of x, so that element changes are carried like names.

x[i] = y     ->  x = flow.assign_element(x, (), i, y)
x[a][i] += y ->  x = flow.augment_element(x, (a,), i, y, "Add")
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeVar

from explorer.frontends.python.syntax.statements import Block

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


# Expressions.


ROWS = ("range", "enumerate", "zip", "reversed")
SUSPENDS = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)


class Expressions(ast.NodeTransformer):
    """Transformer of `and`, `or`, `not`, chained comparisons and `a if c else b` to calls."""

    def within(self, s: ast.stmt) -> ast.stmt:
        """Rewrite a statement's own expressions, not those of nested statements."""
        for field, value in ast.iter_fields(s):
            if isinstance(value, ast.expr):
                setattr(s, field, self.visit(value))
            elif isinstance(value, list):
                visited = [self.visit(v) if isinstance(v, ast.expr) else v for v in value]
                setattr(s, field, visited)
        return s

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Rewrite `a and b` and `a or b`."""
        self.generic_visit(node)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        if _has_walrus(node):
            return node
        return at(node, call(name, *map(later, node.values)))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Rewrite `not a`."""
        self.generic_visit(node)
        return at(node, call("not_", node.operand)) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Rewrite `a if c else b`."""
        self.generic_visit(node)
        if _has_walrus(node):
            return node
        return at(node, call("either", node.test, later(node.body), later(node.orelse)))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Rewrite a chained comparison."""
        self.generic_visit(node)
        if len(node.ops) < 2 or _has_walrus(node):
            return node
        words = [ast.Constant(type(op).__name__) for op in node.ops]
        pairs = [tuple_of([w, later(c)]) for w, c in zip(words, node.comparators, strict=True)]
        return at(node, call("chain", node.left, *pairs))


def _has_walrus(node: ast.AST) -> bool:
    """Return True if a node contains `:=`, `yield` or `await`."""
    return any(isinstance(n, (ast.NamedExpr, *SUSPENDS)) for n in ast.walk(node))


def rows_of(iterable: ast.expr) -> ast.expr:
    """Rewrite a loop's iterable; `range`, `enumerate`, `zip` and `reversed` become calls."""
    match iterable:
        case ast.Call(ast.Name(name), args, []) if name in ROWS:
            inner = [rows_of(a) for a in args] if name != "range" else list(args)
            return at(iterable, call("rows", iterable.func, *map(Expressions().visit, inner)))
    visited: ast.expr = Expressions().visit(iterable)
    return visited


# Assignments of elements.


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
