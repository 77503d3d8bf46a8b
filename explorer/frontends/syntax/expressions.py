"""`and`, `or`, `not`, chained comparisons, `a if c else b`, and what a `for` takes, as calls."""

from __future__ import annotations

import ast

from explorer.frontends.syntax.nodes import at, call, later, tuple_of

ROWS = ("range", "enumerate", "zip", "reversed")
SUSPENDS = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)


class Expressions(ast.NodeTransformer):
    """`and`, `or`, `not`, chained comparisons and `a if c else b` as calls."""

    def within(self, s: ast.stmt) -> ast.stmt:
        """A statement with its own expressions rewritten, not those of statements in it."""
        for field, value in ast.iter_fields(s):
            if isinstance(value, ast.expr):
                setattr(s, field, self.visit(value))
            elif isinstance(value, list):
                again = [self.visit(v) if isinstance(v, ast.expr) else v for v in value]
                setattr(s, field, again)
        return s

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        if has_walrus(node):
            return node
        return at(node, call(name, *map(later, node.values)))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return at(node, call("not_", node.operand)) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if has_walrus(node):
            return node
        return at(node, call("either", node.test, later(node.body), later(node.orelse)))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) < 2 or has_walrus(node):
            return node
        words = [ast.Constant(type(op).__name__) for op in node.ops]
        pairs = [tuple_of([w, later(c)]) for w, c in zip(words, node.comparators, strict=True)]
        return at(node, call("chain", node.left, *pairs))


def has_walrus(node: ast.AST) -> bool:
    return any(isinstance(n, (ast.NamedExpr, *SUSPENDS)) for n in ast.walk(node))


def rows_of(iterable: ast.expr) -> ast.expr:
    """What is gone over: Python's own functions of rows may be given what only a run knows."""
    match iterable:
        case ast.Call(ast.Name(name), args, []) if name in ROWS:
            inner = [rows_of(a) for a in args] if name != "range" else list(args)
            return at(iterable, call("rows", iterable.func, *map(Expressions().visit, inner)))
    found: ast.expr = Expressions().visit(iterable)
    return found
