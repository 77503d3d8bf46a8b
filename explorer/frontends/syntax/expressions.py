"""`and`, `or`, `not`, chained comparisons, `a if c else b`, and loop iterables, as calls."""

from __future__ import annotations

import ast

from explorer.frontends.syntax.nodes import at, call, later, tuple_of

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
        if has_walrus(node):
            return node
        return at(node, call(name, *map(later, node.values)))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Rewrite `not a`."""
        self.generic_visit(node)
        return at(node, call("not_", node.operand)) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Rewrite `a if c else b`."""
        self.generic_visit(node)
        if has_walrus(node):
            return node
        return at(node, call("either", node.test, later(node.body), later(node.orelse)))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Rewrite a chained comparison."""
        self.generic_visit(node)
        if len(node.ops) < 2 or has_walrus(node):
            return node
        words = [ast.Constant(type(op).__name__) for op in node.ops]
        pairs = [tuple_of([w, later(c)]) for w, c in zip(words, node.comparators, strict=True)]
        return at(node, call("chain", node.left, *pairs))


def has_walrus(node: ast.AST) -> bool:
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
