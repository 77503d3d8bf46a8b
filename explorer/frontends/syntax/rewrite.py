"""A function's text with its `if`, `while` and `for` as calls of `flow`, which sees the values:
what turns out to be plain Python is done by Python, what only a run knows is traced.

    if c: y = f(x)          def then(y): y = f(x); return (y,)
    else: y = g(x)    ->    def orelse(y): y = g(x); return (y,)
    return y                (y,) = flow.if_(c, then, orelse, ("y",), ("y",), (read y,))
                            return y

A name that has no value yet is `flow.MISSING` while it is passed on, and has none behind it again.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import count
from typing import TypeVar

from explorer.frontends.syntax.exits import Block, Tangled, leaves, without_exits
from explorer.frontends.syntax.names import (
    FUNCTIONS,
    Names,
    bound,
    closed_over,
    live_at_head,
    live_before,
)

N = TypeVar("N", bound=ast.AST)
FLOW = "__ironworks__"
ROWS = ("range", "enumerate", "zip", "reversed")
LOOP_EXITS = (ast.Break, ast.Continue)
SUSPENDS = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
NEVER: dict[type[ast.AST], str] = {
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.Delete: "del",
    ast.NamedExpr: ":=",
    ast.Match: "match",
    ast.Return: "return inside of a loop",
}


def rewritten(node: ast.FunctionDef) -> ast.FunctionDef | None:
    """The function; None where nothing in it could depend on a traced value."""
    return _Function(node).rewritten() if _decides(node) else None


def _decides(node: ast.AST) -> bool:
    kinds = (ast.If, ast.While, ast.For, ast.IfExp, ast.BoolOp, ast.Not)
    return any(isinstance(n, kinds) for n in ast.walk(node))


class _Function:
    """One function while it is rewritten; names of ours end in a number that no other has."""

    def __init__(self, node: ast.FunctionDef, numbers: count[int] | None = None) -> None:
        self.node, self.numbers = node, numbers or count()
        self.every = bound(node.body) | closed_over(node.body)
        self.always = closed_over(node.body)

    def rewritten(self) -> ast.FunctionDef:
        node = self.node
        if any(isinstance(n, SUSPENDS) for n in ast.walk(node)):
            return node
        body = self.with_one_return(node.body)
        made = ast.FunctionDef(**{f: getattr(node, f) for f in node._fields})
        made.body = self.block(body, self.always)
        return ast.copy_location(made, node)

    def with_one_return(self, body: Block) -> Block:
        """The body with one `return`, its last statement, where some stand in an `if`."""
        if not any(isinstance(s, ast.If) and leaves(s, (ast.Return,)) for s in body):
            return body
        result = self.name("result")
        self.every |= {result}

        def assigned(exit_: ast.stmt) -> Block:
            value = getattr(exit_, "value", None) or ast.Constant(None)
            return [_at(exit_, ast.Assign([_store(result)], value))]

        try:
            found = without_exits(body, (ast.Return,), assigned)
        except Tangled:
            return body
        first, last = body[0], body[-1]
        nothing = _at(first, ast.Assign([_store(result)], ast.Constant(None)))
        return [nothing, *found, _at(last, ast.Return(_load(result)))]

    def name(self, what: str) -> str:
        return f"_{what}_{next(self.numbers)}"

    def block(self, body: Sequence[ast.stmt], after: Names) -> Block:
        """Statements with those of `after` live behind them."""
        made: list[Block] = []
        for statement in reversed(body):
            made.append([_located(s, statement) for s in self.statement(statement, after)])
            after = live_before([statement], after) | self.always
        return [s for several in reversed(made) for s in several]

    def statement(self, s: ast.stmt, after: Names) -> Block:
        match s:
            case ast.If() | ast.While() | ast.For():
                why = _never(s)
                if why is not None:
                    return [self.plain(s, why)]
                if isinstance(s, ast.If):
                    return self.branch(s, after)
                return self.loop(s, after)
            case ast.FunctionDef():
                return [_Function(s, self.numbers).rewritten()]
            case ast.ClassDef() | ast.AsyncFunctionDef():
                return [s]
        for field, value in ast.iter_fields(s):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(s, field, self.block(value, self.every))
            elif isinstance(value, list) and value and isinstance(value[0], ast.ExceptHandler):
                for handler in value:
                    handler.body = self.block(handler.body, self.every)
        return [_Expressions().within(s)]

    def plain(self, s: ast.If | ast.While | ast.For, why: str) -> ast.stmt:
        """Python's own, which says why it can be nothing else where a run would decide."""
        if isinstance(s, ast.For):
            s.iter = _call("plain_rows", _Expressions().visit(s.iter), ast.Constant(why))
        else:
            s.test = _call("plain", _Expressions().visit(s.test), ast.Constant(why))
        s.body = self.block(s.body, self.every)
        s.orelse = self.block(s.orelse, self.every)
        return s

    def branch(self, s: ast.If, after: Names) -> Block:
        changed = sorted(bound([*s.body, *s.orelse]))
        results = [n for n in changed if n in after]
        sides = []
        functions: Block = []
        for what, side in (("then", s.body), ("else", s.orelse)):
            sides.append(self.name(what))
            body = self.block(side, after)
            functions.append(_function(sides[-1], changed, body, results))
        call = _call(
            "if_",
            _Expressions().visit(s.test),
            *map(_load, sides),
            _words(results),
            _tuple([_read(n) for n in changed]),
        )
        return [*functions, *_assigned(results, call)]

    def loop(self, s: ast.While | ast.For, after: Names) -> Block:
        stop = self.name("stop") if any(leaves(x, (ast.Break,)) for x in s.body) else ""

        def assigned(exit_: ast.stmt) -> Block:
            ends = isinstance(exit_, ast.Break)
            flag = ast.Assign([_store(stop)], ast.Constant(True)) if ends else ast.Pass()
            return [_at(exit_, flag)]

        try:
            body = without_exits(s.body, LOOP_EXITS, assigned)
        except Tangled as why:
            return [self.plain(s, str(why))]
        orelse: Block = s.orelse
        if stop and orelse:
            orelse = [_at(s, ast.If(ast.UnaryOp(ast.Not(), _load(stop)), orelse, []))]
        behind = live_before(orelse, after)
        begin: Block = [ast.Assign([_store(stop)], ast.Constant(False))] if stop else []
        if isinstance(s, ast.For):
            made = self.rows(s, body, behind, stop)
        else:
            made = self.while_(s, body, behind, stop)
        return [*begin, *made, *self.block(orelse, after)]

    def while_(self, s: ast.While, body: Block, behind: Names, stop: str) -> Block:
        head = live_at_head(ast.While(s.test, body, []), behind) | self.always
        state = _state(bound(body) & head, stop)
        test, step = self.name("test"), self.name("body")
        decide = _function(test, state, [ast.Return(_Expressions().visit(s.test))], None)
        inner = _function(step, state, self.block(body, head | {stop}), state)
        call = _call("while_", _load(test), _load(step), *_given(state, stop))
        return [_at(s, decide), _at(s, inner), *_assigned(state, call)]

    def rows(self, s: ast.For, body: Block, behind: Names, stop: str) -> Block:
        item, step = self.name("item"), self.name("body")
        first = _at(s, ast.Assign([s.target], _load(item)))
        whole: Block = [first, *body]
        head = live_at_head(ast.For(s.target, s.iter, body, []), behind) | self.always
        state = _state(bound(whole) & head, stop)
        inner = _function(step, [item, *state], self.block(whole, head | {stop}), state)
        inner.body = [x for x in inner.body if not _checks(x, item)]
        rows = _rows(s.iter)
        call = _call("for_", rows, _load(step), *_given(state, stop))
        return [_at(s, inner), *_assigned(state, call)]


def _never(s: ast.stmt) -> str | None:
    """What in a statement no function can stand for."""
    inside = [n for n in ast.iter_child_nodes(s)]
    while inside:
        node = inside.pop()
        if type(node) in NEVER:
            return NEVER[type(node)]
        if not isinstance(node, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            inside += ast.iter_child_nodes(node)
    if isinstance(s, ast.If):
        return "break or continue in such a place" if leaves(s, LOOP_EXITS) else None
    return None


class _Expressions(ast.NodeTransformer):
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
        if _has_walrus(node):
            return node
        return _at(node, _call(name, *map(_later, node.values)))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _at(node, _call("not_", node.operand)) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if _has_walrus(node):
            return node
        return _at(node, _call("either", node.test, _later(node.body), _later(node.orelse)))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) < 2 or _has_walrus(node):
            return node
        words = [ast.Constant(type(op).__name__) for op in node.ops]
        pairs = [_tuple([w, _later(c)]) for w, c in zip(words, node.comparators, strict=True)]
        return _at(node, _call("chain", node.left, *pairs))


def _has_walrus(node: ast.AST) -> bool:
    return any(isinstance(n, (ast.NamedExpr, *SUSPENDS)) for n in ast.walk(node))


def _state(names: Names, stop: str) -> list[str]:
    return sorted(names | {stop} if stop else names)


def _given(state: list[str], stop: str) -> tuple[ast.expr, ...]:
    reads = _tuple([_read(n) for n in state])
    return _words(state), reads, ast.Constant(state.index(stop) if stop else -1)


def _rows(iterable: ast.expr) -> ast.expr:
    """What is gone over: Python's own functions of rows may be given what only a run knows."""
    match iterable:
        case ast.Call(ast.Name(name), args, []) if name in ROWS:
            inner = [_rows(a) for a in args] if name != "range" else list(args)
            return _at(iterable, _call("rows", iterable.func, *map(_Expressions().visit, inner)))
    found: ast.expr = _Expressions().visit(iterable)
    return found


def _function(
    name: str, params: Sequence[str], body: Block, results: Sequence[str] | None
) -> ast.FunctionDef:
    """`def name(params): body; return results`; names that came without a value have none."""
    args = ast.arguments([], [ast.arg(p) for p in params], None, [], [], None, [])
    back: Block = [] if results is None else [ast.Return(_tuple([_read(r) for r in results]))]
    made = [*map(_unset, params), *body, *back]
    return ast.FunctionDef(name, args, made, [], None)


def _unset(name: str) -> ast.stmt:
    """`if name is MISSING: del name`."""
    test = ast.Compare(_load(name), [ast.Is()], [_flow("MISSING")])
    return ast.If(test, [ast.Delete([ast.Name(name, ast.Del())])], [])


def _checks(s: ast.stmt, name: str) -> bool:
    match s:
        case ast.If(ast.Compare(ast.Name(left), [ast.Is()]), [ast.Delete()]):
            return left == name
    return False


def _assigned(names: Sequence[str], call: ast.expr) -> Block:
    if not names:
        return [ast.Expr(call)]
    target = ast.Tuple([_store(n) for n in names], ast.Store())
    return [ast.Assign([target], call), *map(_unset, names)]


def _read(name: str) -> ast.expr:
    """The value of a name, or MISSING."""
    return _call("read", _later(_load(name)))


def _later(value: ast.expr) -> ast.expr:
    nothing = ast.arguments([], [], None, [], [], None, [])
    return ast.copy_location(ast.Lambda(nothing, value), value)


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(_flow(name), list(args), [])


def _flow(name: str) -> ast.expr:
    return ast.Attribute(ast.Name(FLOW, ast.Load()), name, ast.Load())


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.expr:
    return ast.Name(name, ast.Store())


def _words(names: Sequence[str]) -> ast.expr:
    return _tuple([ast.Constant(n) for n in names])


def _tuple(parts: list[ast.expr]) -> ast.expr:
    return ast.Tuple(parts, ast.Load())


def _at(where: ast.AST, node: N) -> N:
    return ast.copy_location(node, where)


def _located(node: ast.stmt, where: ast.stmt) -> ast.stmt:
    """Every part of a statement that has no line yet stands at that of another."""
    for inner in ast.walk(node):
        if "lineno" in inner._attributes and not hasattr(inner, "lineno"):
            place = {"lineno": where.lineno, "col_offset": where.col_offset}
            ends = {"end_lineno": where.lineno, "end_col_offset": where.col_offset}
            for field, number in (place | ends).items():
                setattr(inner, field, number)
    return node
