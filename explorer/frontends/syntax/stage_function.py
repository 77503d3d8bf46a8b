"""A Python function prepared for tracing: rewritten source with the same globals and closure."""

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
from explorer.frontends.syntax.rewrite import rewrite_function
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
    new_node = rewrite_function(node)
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
