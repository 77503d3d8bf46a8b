"""Declared types of a traced function's parameters, results and values.

`match_cast` asserts the type of a value, which is checked at run time.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from explorer.errors import BadOption, DtypeError, ShapeError, TraceError
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.dims import python_dim
from explorer.frontends.python.tracing.emit import emit_match_cast, is_traced, traced
from explorer.frontends.python.tracing.frames import (
    FunctionFrame,
    attributed_to_call,
    calling_line,
    current_frame,
)
from explorer.frontends.python.tracing.operators import PART
from explorer.ir.annotations import Match, defined_by, match, replace_symbols, symbols_in
from explorer.ir.dims import (
    Dim,
    Shape,
    evaluate_dim,
    floor_div,
    is_symbol,
    is_symbolic,
    simplify,
    symbol,
    symbols_of,
    sympy,
)
from explorer.ir.types import ITEM_BYTES, ShapeType, Tensor


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


# Parameters of a function.


def declared_inputs(run: Callable[..., Any], annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotation of each parameter, from `annotations` or the signature.

    Parameters with a default and no annotation are left out. Raises TraceError if one has neither.
    """
    try:
        hints = inspect.get_annotations(run, eval_str=True)
    except NameError:
        hints = {}
    declarations: dict[str, Any] = {}
    for name, parameter in inspect.signature(run).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TraceError(
                f"{run.__name__} takes {parameter}; a traced function names its inputs"
            )
        declared = annotations.get(name, hints.get(name))
        if is_declared(declared):
            declarations[name] = declared
        elif parameter.default is parameter.empty:
            raise TraceError(
                f"the parameter {name!r} of {run.__name__} has no annotation of its dtype and dims",
                where=name,
                try_=f'{name}: explorer.tensor("float32", "batch", 64)',
            )
    return declarations


def is_declared(value: Any) -> bool:
    """Return True if the value is an annotation, or a non-empty nest of them."""
    if isinstance(value, dict):
        return bool(value) and all(map(is_declared, value.values()))
    if isinstance(value, (tuple, list)):
        return bool(value) and all(map(is_declared, value))
    return isinstance(value, Tensor)


# Casts.


def shape(*dims: int | str) -> ShapeType:
    """Return the annotation of integers that are dims: `shape("rows", 4)`."""
    return ShapeType(tuple(dim_of(d) for d in dims))


def match_cast(x: Any, annotation: Tensor | ShapeType) -> Any:
    """Return the same value, checked at run time; new names in the annotation become dims.

    For a `tensor` the result is the array; for a `shape` a tuple of dims, one for each integer of
    x.
    """
    if not is_traced(x):
        return _eager(x, annotation)
    with attributed_to_call("match_cast"):
        return _cast(traced(x), annotation)


def _cast(x: TracedArray, annotation: Tensor | ShapeType) -> Any:
    frame = current_frame()
    target = _named(frame, annotation)
    if isinstance(target, ShapeType):
        return _dims(frame, x, target)
    assert isinstance(target, Tensor)
    if target.shape is None or target.dtype is None:
        target = Tensor(target.shape or x.type.dims, target.dtype or x.type.element)
    level, why = match(target, x.type, frame.recorder.env)
    if level == Match.DISJOINT:
        wrong = DtypeError if target.dtype != x.type.dtype else ShapeError
        raise wrong(
            f"{calling_line()}: the match_cast to {annotation} never holds for {x.type}: {why}",
            where=calling_line(),
            expected=annotation,
            actual=x.type,
        )
    if level == Match.PROVED:
        return x
    return TracedArray(emit_match_cast(frame, frame.own(x.value, x.home), target, "match"), frame)


def _dims(frame: FunctionFrame, x: TracedArray, target: ShapeType) -> tuple[Any, ...]:
    dims = target.dims or ()
    if x.dtype.kind not in "iu" or x.type.elements != len(dims):
        raise ShapeError(
            f"{calling_line()}: {len(dims)} dims need as many integers, not {x.type}",
            where=calling_line(),
        )
    emit_match_cast(frame, frame.own(x.value, x.home), target, "match")
    return tuple(python_dim(d) for d in dims)


def _named(frame: FunctionFrame, annotation: Tensor | ShapeType) -> Tensor | ShapeType:
    """Return the annotation in the program's symbols; a bare new name becomes a symbol."""
    symbols: dict[str, Dim] = {}
    bare = defined_by(annotation)
    for name in (*bare, *sorted(symbols_in(annotation) - set(bare))):
        dim = frame.find_symbol(name)
        if dim is None and name not in bare:
            raise ShapeError(
                f"{calling_line()}: {name!r} in {annotation} is not defined; a name "
                "defines a dim only where it stands alone",
                where=calling_line(),
            )
        if dim is None:
            dim = frame.symbols[name] = frame.recorder.symbol(name)
        symbols[name] = dim
    return _replaced(annotation, symbols)


def _replaced(annotation: Tensor | ShapeType, symbols: dict[str, Dim]) -> Tensor | ShapeType:
    def dims(shape: Shape | None) -> Shape | None:
        return None if shape is None else tuple(replace_symbols(d, symbols) for d in shape)

    if isinstance(annotation, Tensor):
        return Tensor(dims(annotation.shape), annotation.dtype, annotation.ndim)
    return ShapeType(dims(annotation.dims), annotation.rank)


# On arrays.


def _eager(x: Any, annotation: Tensor | ShapeType) -> Any:
    array = np.asarray(x)
    if isinstance(annotation, ShapeType):
        values = tuple(int(v) for v in array.reshape(-1))
        _check(annotation.dims or (), values, annotation)
        return values
    if annotation.dtype not in (None, array.dtype.name):
        raise DtypeError(
            f"{calling_line()}: expected {annotation}, found an array of {array.dtype}"
        )
    if annotation.rank not in (None, array.ndim):
        raise ShapeError(f"{calling_line()}: expected {annotation}, found the shape {array.shape}")
    if annotation.shape is not None:
        _check(annotation.shape, array.shape, annotation)
    return x


def _check(dims: Shape, extents: tuple[int, ...], annotation: Any) -> None:
    sizes: dict[str, int] = {}
    for dim, extent in zip(dims, extents, strict=False):
        if is_symbol(dim):
            sizes.setdefault(dim.name, extent)
    is_defined = [symbols_of(d) <= sizes.keys() for d in dims]
    expected = [evaluate_dim(d, sizes) if k else n for d, k, n in zip(dims, is_defined, extents)]
    if len(dims) != len(extents) or list(extents) != expected:
        raise ShapeError(
            f"{calling_line()}: expected {annotation}, found the shape {extents}",
            where=calling_line(),
            expected=annotation,
            actual=extents,
        )
