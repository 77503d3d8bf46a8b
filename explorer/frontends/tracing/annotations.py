"""Declared types of a traced function's parameters and results."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

import numpy as np

from explorer.errors import BadOption
from explorer.frontends.tracing.complex_array import PART
from explorer.ir.shapes.algebra import is_symbolic, sympy
from explorer.ir.shapes.dims import Dim, floor_div, simplify, symbol
from explorer.ir.types import ITEM_BYTES, Tensor


def tensor(dtype: Any, *dims: int | str, ndim: int | None = None) -> Tensor:
    """Return the annotation of an array: `tensor("float32", "batch", 64)`; without dims a scalar.

    A dim is a number, a name, or arithmetic on names: "2*n", "n // 2 + 1". With `ndim` only the
    rank is declared. A complex array is a pair of inputs of the program.

    Raises:
        BadOption: names a dtype or dim that is not valid.
    """
    name = _dtype(dtype)
    if ndim is not None:
        if dims:
            raise BadOption("a tensor takes either dims or ndim, not both", where="ndim")
        return Tensor(None, name, ndim)
    return Tensor(tuple(dim_of(d) for d in dims), name)


def _dtype(dtype: Any) -> str:
    try:
        name = str(dtype) if dtype in ITEM_BYTES else np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    if name not in ITEM_BYTES and name not in PART:
        raise BadOption(f"{name!r} is no dtype with kernels", expected=", ".join(ITEM_BYTES))
    return name


def dim_of(dim: Any) -> Dim:
    """Parse a declared dim: a number, a name, or arithmetic on names."""
    if isinstance(dim, str):
        return _parse(dim)
    if is_symbolic(dim) and isinstance(dim, sympy.Expr):
        return simplify(dim)
    if isinstance(dim, (int, np.integer)) and not isinstance(dim, bool) and dim >= 0:
        return int(dim)
    raise BadOption(f"a dim must be a nonnegative integer or a name; found {dim!r}", where=dim)


def _parse(text: str) -> Dim:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        _refuse(text)
    return simplify(_dim(tree, text))


def _dim(tree: ast.expr, text: str) -> Any:
    match tree:
        case ast.Name(name):
            return symbol(name)
        case ast.Constant(int(value)) if not isinstance(value, bool):
            return value
        case ast.BinOp(left, op, right):
            return _arithmetic(op, _dim(left, text), _dim(right, text), text)
        case ast.Call(ast.Name("max" | "min" as name), [_, _, *_] as args, []):
            kind = sympy.Max if name == "max" else sympy.Min
            return kind(*(_dim(a, text) for a in args))
    _refuse(text)


def _arithmetic(op: ast.operator, a: Any, b: Any, text: str) -> Any:
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.FloorDiv() if b != 0:
            return floor_div(a, b)
        case ast.Mod() if b != 0:
            return simplify(a - floor_div(a, b) * b)
    _refuse(text)


def _refuse(text: str) -> NoReturn:
    raise BadOption(
        f"the dim {text!r} is neither a name nor arithmetic on names",
        where=text,
        try_="'n // 2 + 1'",
    )
