"""A Python function prepared for tracing: its `if`, `while` and `for` become calls of `flow`.

The rewritten source has the same globals and closure. At tracing time `flow` sees the values: what
Python knows is run, what is known only at run time is traced.

    if c: y = f(x)          def then(y): y = f(x); return (y,)
    else: y = g(x)    ->    def orelse(y): y = g(x); return (y,)
    return y                (y,) = flow.if_(c, then, orelse, ("y",), ("y",), (read y,))
                            return y

An unbound name is passed on as `flow.MISSING` and unbound again afterwards.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

from explorer.frontends.python.syntax import flow
from explorer.frontends.python.syntax.nodes import (
    FLOW,
    SUSPENDS,
    Expressions,
    SplitTupleAssignments,
    as_assignment,
    assigned_from,
    at,
    call,
    definition,
    fill_positions,
    function,
    load,
    read_later,
    rows_of,
    store,
    tuple_of,
    words,
)
from explorer.frontends.python.syntax.statements import (
    FUNCTIONS,
    Block,
    IrreducibleExit,
    Names,
    bound,
    changed_elements,
    changed_name,
    closed_over,
    leaves,
    live_at_head,
    live_before,
    parameters,
    without_exits,
)
from explorer.python_source import parse

Run = Callable[..., Any]
OWN = "_staged_"
REMEMBERED = 256


def stage_function(run: Run) -> Run:
    """Return the function with its control flow rewritten for traced values.

    A function without control flow or without source (a lambda, `exec`) is returned unchanged.
    """
    if inspect.ismethod(run):
        return types.MethodType(stage_function(run.__func__), run.__self__)
    if not isinstance(run, types.FunctionType):
        return run
    code = _code(run.__code__)
    if code is None:
        return run
    cells = dict(zip(run.__code__.co_freevars, run.__closure__ or (), strict=True))
    cells[FLOW] = types.CellType(flow)
    closure = tuple(cells[name] for name in code.co_freevars)
    function = types.FunctionType(code, run.__globals__, run.__name__, run.__defaults__, closure)
    function.__kwdefaults__, function.__qualname__ = run.__kwdefaults__, run.__qualname__
    return function


@lru_cache(maxsize=REMEMBERED)
def _code(code: types.CodeType) -> types.CodeType | None:
    """Return the rewritten function's code; None if it stays as it is."""
    if code.co_name == "<lambda>":
        return None
    try:
        lines, first = inspect.getsourcelines(code)
        module = parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return None
    node = module.body[0] if module.body else None
    if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
        return None
    ast.increment_lineno(module, first - 1)
    new_node = _rewrite_function(node)
    if new_node is None:
        return None
    return _compile(new_node, code)


def _compile(node: ast.FunctionDef, code: types.CodeType) -> types.CodeType:
    """Compile the function inside of an outer one that binds the closure's names."""
    node.name, node.decorator_list, node.returns = OWN, [], None
    every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    for arg in (*every, *filter(None, (node.args.vararg, node.args.kwarg))):
        arg.annotation = None
    node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
    node.args.kw_defaults = [d and ast.Constant(None) for d in node.args.kw_defaults]
    names = (FLOW, *code.co_freevars)
    bindings = [ast.Assign([ast.Name(n, ast.Store())], ast.Constant(None)) for n in names]
    around = definition("_closure_", (), [*bindings, node])
    module = ast.fix_missing_locations(ast.Module([around], []))
    outer = next(c for c in compile(module, code.co_filename, "exec").co_consts if _is_code(c))
    inner: types.CodeType = next(c for c in outer.co_consts if _is_code(c))
    return inner.replace(co_name=code.co_name, co_qualname=code.co_qualname)


def _is_code(constant: object) -> bool:
    return isinstance(constant, types.CodeType)


# Rewriting.


LOOP_EXITS = (ast.Break, ast.Continue)
NEVER: dict[type[ast.AST], str] = {
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.Delete: "del",
    ast.NamedExpr: ":=",
    ast.Match: "match",
    ast.Return: "return inside of a loop",
}


def _rewrite_function(node: ast.FunctionDef) -> ast.FunctionDef | None:
    """Return the rewritten function; None if nothing in it can depend on a traced value."""
    node = SplitTupleAssignments().visit(node)
    return _Function(node).rewrite() if _has_control_flow(node) else None


def _has_control_flow(node: ast.AST) -> bool:
    kinds = (ast.If, ast.While, ast.For, ast.IfExp, ast.BoolOp, ast.Not)
    return any(isinstance(n, kinds) or changed_name(n) for n in ast.walk(node))


class _Function:
    """A function being rewritten; generated names end in a unique number."""

    def __init__(self, node: ast.FunctionDef, numbers: count[int] | None = None) -> None:
        """Collect the names of a function; inner functions share `numbers`."""
        self.node, self.numbers = node, numbers or count()
        self.every = bound(node.body) | closed_over(node.body)
        self.always = closed_over(node.body)
        self.own = parameters(node.args) | bound(node.body)

    def rewrite(self) -> ast.FunctionDef:
        """Return the rewritten function."""
        node = self.node
        if any(isinstance(n, SUSPENDS) for n in ast.walk(node)):
            return node
        every = (*node.args.posonlyargs, *node.args.args)
        own = _Super(every[0].arg) if every else None
        body = self.with_one_return([own.visit(s) for s in node.body] if own else node.body)
        function = ast.FunctionDef(**{f: getattr(node, f) for f in node._fields})
        function.body = self.block(body, self.always)
        return ast.copy_location(function, node)

    def with_one_return(self, body: Block) -> Block:
        """Return the body with a single `return` at the end, if some stand in an `if`."""
        if not any(isinstance(s, ast.If) and leaves(s, (ast.Return,)) for s in body):
            return body
        result = self.name("result")
        self.every |= {result}

        def replaced(exit_: ast.stmt) -> Block:
            value = getattr(exit_, "value", None) or ast.Constant(None)
            return [at(exit_, ast.Assign([store(result)], value))]

        try:
            statements = without_exits(body, (ast.Return,), replaced)
        except IrreducibleExit:
            return body
        first, last = body[0], body[-1]
        nothing = at(first, ast.Assign([store(result)], ast.Constant(None)))
        return [nothing, *statements, at(last, ast.Return(load(result)))]

    def name(self, what: str) -> str:
        """Return a fresh name."""
        return f"_{what}_{next(self.numbers)}"

    def block(self, body: Sequence[ast.stmt], after: Names) -> Block:
        """Rewrite statements after which the names `after` are live."""
        blocks: list[Block] = []
        for statement in reversed(body):
            blocks.append([fill_positions(s, statement) for s in self.statement(statement, after)])
            after = live_before([statement], after) | self.always
        return [s for several in reversed(blocks) for s in several]

    def statement(self, s: ast.stmt, after: Names) -> Block:
        """Rewrite one statement."""
        match s:
            case ast.If() | ast.While() | ast.For():
                why = _unsupported(s)
                if why is not None:
                    return [self.plain(s, why)]
                if isinstance(s, ast.If):
                    return self.branch(s, after)
                return self.loop(s, after)
            case ast.FunctionDef():
                return [_Function(s, self.numbers).rewrite()]
            case ast.ClassDef() | ast.AsyncFunctionDef():
                return [s]
        name = changed_name(s)
        if name in self.own and isinstance(s, ast.Assign | ast.AugAssign):
            return [as_assignment(s, str(name))]
        for field, value in ast.iter_fields(s):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(s, field, self.block(value, self.every))
            elif isinstance(value, list) and value and isinstance(value[0], ast.ExceptHandler):
                for handler in value:
                    handler.body = self.block(handler.body, self.every)
        return [Expressions().within(s)]

    def plain(self, s: ast.If | ast.While | ast.For, why: str) -> ast.stmt:
        """Keep a Python statement; it refuses a traced condition with the reason `why`."""
        if isinstance(s, ast.For):
            s.iter = call("plain_rows", Expressions().visit(s.iter), ast.Constant(why))
        else:
            s.test = call("plain", Expressions().visit(s.test), ast.Constant(why))
        s.body = self.block(s.body, self.every)
        s.orelse = self.block(s.orelse, self.every)
        return s

    def branch(self, s: ast.If, after: Names) -> Block:
        """Rewrite an `if`."""
        elements = changed_elements([*s.body, *s.orelse]) & self.own
        names = bound([*s.body, *s.orelse])
        changed = sorted(names | elements)
        results = [n for n in changed if n in after or n in elements - names]
        arms = []
        functions: Block = []
        for what, arm_body in (("then", s.body), ("else", s.orelse)):
            arms.append(self.name(what))
            body = self.block(arm_body, after)
            functions.append(function(arms[-1], changed, body, results))
        flow_call = call(
            "if_",
            Expressions().visit(s.test),
            *map(load, arms),
            words(results),
            tuple_of([read_later(n) for n in changed]),
            ast.Constant(self.effect(s)),
            _elements(changed, elements, names),
        )
        return [*functions, *assigned_from(results, flow_call)]

    def loop(self, s: ast.While | ast.For, after: Names) -> Block:
        """Rewrite a loop, with exits replaced by a flag."""
        stop = self.name("stop") if any(leaves(x, (ast.Break,)) for x in s.body) else ""

        def replaced(exit_: ast.stmt) -> Block:
            ends = isinstance(exit_, ast.Break)
            flag = ast.Assign([store(stop)], ast.Constant(True)) if ends else ast.Pass()
            return [at(exit_, flag)]

        try:
            body = without_exits(s.body, LOOP_EXITS, replaced)
        except IrreducibleExit as why:
            return [self.plain(s, str(why))]
        orelse: Block = s.orelse
        if stop and orelse:
            orelse = [at(s, ast.If(ast.UnaryOp(ast.Not(), load(stop)), orelse, []))]
        live_after = live_before(orelse, after)
        begin: Block = [ast.Assign([store(stop)], ast.Constant(False))] if stop else []
        if isinstance(s, ast.For):
            statements = self.rows(s, body, live_after, stop)
        else:
            statements = self.while_(s, body, live_after, stop)
        return [*begin, *statements, *self.block(orelse, after)]

    def while_(self, s: ast.While, body: Block, live_after: Names, stop: str) -> Block:
        """Rewrite a `while`."""
        head = live_at_head(ast.While(s.test, body, []), live_after) | self.always
        names, elements = bound(body), changed_elements(body) & self.own
        state = _state((names | elements) & head, stop)
        test, step = self.name("test"), self.name("body")
        decide = function(test, state, [ast.Return(Expressions().visit(s.test))], None)
        inner = function(step, state, self.block(body, head | {stop}), state)
        flow_call = call(
            "while_",
            load(test),
            load(step),
            *_state_arguments(state, stop),
            ast.Constant(self.effect(s)),
            _elements(state, elements, names),
        )
        return [at(s, decide), at(s, inner), *assigned_from(state, flow_call)]

    def rows(self, s: ast.For, body: Block, live_after: Names, stop: str) -> Block:
        """Rewrite a `for`."""
        item, step = self.name("item"), self.name("body")
        first = at(s, ast.Assign([s.target], load(item)))
        full_body: Block = [first, *body]
        head = live_at_head(ast.For(s.target, s.iter, body, []), live_after) | self.always
        names, elements = bound(full_body), changed_elements(body) & self.own
        state = _state((names | elements) & head, stop)
        inner = function(step, [item, *state], self.block(full_body, head | {stop}), state)
        rows = rows_of(s.iter)
        flow_call = call(
            "for_",
            rows,
            load(step),
            *_state_arguments(state, stop),
            ast.Constant(self.effect(s)),
            _elements(state, elements, names),
        )
        return [at(s, inner), *assigned_from(state, flow_call)]

    def effect(self, s: ast.stmt) -> str:
        """Return a side effect of a statement that a traced condition could not prevent.

        Changes of something that is not a name of the function count, and `raise`; `print` does
        not. Return "" if there is none.
        """
        inside = list(ast.iter_child_nodes(s))
        while inside:
            node = inside.pop(0)
            match node:
                case ast.Raise() | ast.Assert():
                    return type(node).__name__.lower()
                case ast.Assign() | ast.AugAssign() if changed_name(node) in self.own:
                    inside += [node.value]
                    continue
                case ast.Attribute(_, _, ast.Store()) | ast.Subscript(_, _, ast.Store()):
                    return f"change of {ast.unparse(node)}"
                case ast.Expr(ast.Call(ast.Name("print"))):
                    continue
                case ast.Expr(ast.Call(function)):
                    return f"call of {ast.unparse(function)} for its effect"
            if not isinstance(node, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
                inside += ast.iter_child_nodes(node)
        return ""


class _Super(ast.NodeTransformer):
    """Transformer of `super()` to its explicit form: generated functions have their own frames."""

    def __init__(self, first: str) -> None:
        """Store the name of the function's first parameter."""
        self.first = first

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave inner functions as they are."""
        return node  # its first parameter is a different one

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Leave inner classes as they are."""
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Rewrite `super()` to `super(__class__, first)`."""
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Name("super"), [], []):
                explicit = ast.Call(node.func, [load("__class__"), load(self.first)], [])
                return ast.copy_location(explicit, node)
        return node


def _unsupported(s: ast.stmt) -> str | None:
    """Return the construct in a statement that rules out a rewrite, or None."""
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


def _state(names: Names, stop: str) -> list[str]:
    return sorted(names | {stop} if stop else names)


def _state_arguments(state: list[str], stop: str) -> tuple[ast.expr, ...]:
    reads = tuple_of([read_later(n) for n in state])
    return words(state), reads, ast.Constant(state.index(stop) if stop else -1)


def _elements(order: Sequence[str], changed: Names, bound_too: Names) -> ast.expr:
    """Return the names whose elements change: index, name, and whether they come from outside."""
    rows = ((n, name, name not in bound_too) for n, name in enumerate(order) if name in changed)
    return tuple_of([tuple_of([ast.Constant(part) for part in row]) for row in rows])
