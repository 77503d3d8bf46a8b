"""A Python function as it is traced: its text rewritten, its globals, defaults and closure kept."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from explorer.frontends.syntax import flow
from explorer.frontends.syntax.nodes import FLOW, definition
from explorer.frontends.syntax.rewrite import rewritten
from explorer.python_source import parse

Run = Callable[..., Any]
OWN = "_staged_"
REMEMBERED = 256


def staged(run: Run) -> Run:
    """The function with its control flow open to traced values; itself where it has none, or where
    its text is not at hand: a lambda, or what was made by `exec`.
    """
    if inspect.ismethod(run):
        return types.MethodType(staged(run.__func__), run.__self__)
    if not isinstance(run, types.FunctionType):
        return run
    code = _code(run.__code__)
    if code is None:
        return run
    cells = dict(zip(run.__code__.co_freevars, run.__closure__ or (), strict=True))
    cells[FLOW] = types.CellType(flow)
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(code, run.__globals__, run.__name__, run.__defaults__, closure)
    made.__kwdefaults__, made.__qualname__ = run.__kwdefaults__, run.__qualname__
    return made


@lru_cache(maxsize=REMEMBERED)
def _code(code: types.CodeType) -> types.CodeType | None:
    """The rewritten function's code; None where it stays as it is."""
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
    made = rewritten(node)
    if made is None:
        return None
    return _compiled(made, code)


def _compiled(node: ast.FunctionDef, code: types.CodeType) -> types.CodeType:
    """The code, in a function around it that has the names of the closure."""
    node.name, node.decorator_list, node.returns = OWN, [], None
    every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    for arg in (*every, *filter(None, (node.args.vararg, node.args.kwarg))):
        arg.annotation = None
    node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
    node.args.kw_defaults = [d and ast.Constant(None) for d in node.args.kw_defaults]
    names = (FLOW, *code.co_freevars)
    given = [ast.Assign([ast.Name(n, ast.Store())], ast.Constant(None)) for n in names]
    around = definition("_closure_", (), [*given, node])
    module = ast.fix_missing_locations(ast.Module([around], []))
    outer = next(c for c in compile(module, code.co_filename, "exec").co_consts if _is(c))
    inner: types.CodeType = next(c for c in outer.co_consts if _is(c))
    return inner.replace(co_name=code.co_name, co_qualname=code.co_qualname)


def _is(constant: object) -> bool:
    return isinstance(constant, types.CodeType)
