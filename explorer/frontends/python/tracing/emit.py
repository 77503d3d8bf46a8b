"""Emission of operators into the current function, and conversion of values to their operands.

Types are inferred at once, so that an error names the line. Operands are promoted as in NumPy (NEP
50): stand-ins for Python numbers are weakly typed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import onnx

from explorer.errors import BadOperator, DtypeError, IronworksError, ShapeError, fault
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.dims import SymbolicDim
from explorer.frontends.python.tracing.frames import (
    FunctionFrame,
    attributed_to_call,
    calling_line,
    current_frame,
    current_source,
    is_immutable,
    is_tracing,
)
from explorer.frontends.python.tracing.operators import ComplexArray, is_complex
from explorer.ir.annotations import defined_by
from explorer.ir.calls import AttrValue, Expr, MatchCast, OpCall, ShapeOf, Var
from explorer.ir.dims import Dim, Shape, ShapeEnv
from explorer.ir.program import Constant
from explorer.ir.types import ITEM_BYTES, Annotation, Tensor, dtype_of
from explorer.ops import RECORDS
from explorer.ops.elementwise import snake_case
from explorer.ops.record import OperatorRecord, Site
from explorer.ops.rules import check_site, in_rule
from explorer.ops.shape_rules import ImpliedBound, Unprovable


def emit(
    op: str,
    /,
    *args: TracedArray | None,
    types: Sequence[Annotation] | None = None,
    dims: KnownDims | None = None,
    **attrs: AttrValue,
) -> TracedArray:
    """Emit an operator and return its single result.

    `types` states the annotations of an operator without a record, or together with `dims` the
    known dims where runtime values decide the others. A dim that is unknown, or cannot be proved,
    becomes a fresh symbol, which is defined at run time.
    """
    (result,) = emit_several(op, 1, *args, types=types, dims=dims, **attrs)
    return result


def emit_several(
    op: str,
    results: int,
    /,
    *args: TracedArray | None,
    types: Sequence[Annotation] | None = None,
    dims: KnownDims | None = None,
    **attrs: AttrValue,
) -> tuple[TracedArray, ...]:
    """Emit an operator and return its results."""
    return emit_call(op, results, args, attrs, types, dims)


def emit_call(
    op: str,
    results: int,
    args: Sequence[TracedArray | None],
    attrs: Mapping[str, AttrValue],
    types: Sequence[Annotation] | None = None,
    dims: KnownDims | None = None,
) -> tuple[TracedArray, ...]:
    """Emit an operator whose attributes may have any name, as a user's may."""
    frame, record = current_frame(), RECORDS.get(op)
    own = tuple(None if a is None else frame.own(a.value, a.home) for a in args)
    present = {name: value for name, value in attrs.items() if value is not None}
    if record is None:
        present["opset"] = onnx.defs.onnx_opset_version()
    if record is not None and dims is None:
        types, dims = _infer_types(frame, record, own, present, results)
        if dims is not None:  # unproved extents are checked at run time
            own, present = _by_argument(frame, record, own, present)
    assert types is not None, f"{op} has no record, and its types are not stated"
    call = OpCall(op, own, tuple(present.items()))
    return tuple(bind(frame, call, types, snake_case(op), [] if dims is None else [dims]))


def bind(
    frame: FunctionFrame,
    expr: Expr,
    types: Sequence[Annotation],
    name: str,
    dims: Sequence[KnownDims] = (),
) -> list[TracedArray]:
    """Bind an expression and return its values; a match_cast defines dims that have no annotation.

    `dims` are the known dims of each value whose annotation has none.
    """
    open_ = [isinstance(t, Tensor) and t.shape is None for t in types]
    names = [f"{name}.found" if o else name for o in open_]
    raw = frame.bind(names, types, expr)
    values = []
    for var, is_open, known_dims in zip_longest(raw, open_, dims):
        closed = cast_to_symbols(frame, var, known_dims, name) if is_open else var
        values.append(TracedArray(closed, frame))
    return values


def cast_to_symbols(frame: FunctionFrame, var: Var, dims: KnownDims | None, name: str) -> Var:
    """Emit a match_cast that gives a fresh symbol to each unknown dim."""
    extents = dims if dims is not None else (None,) * (var.tensor.rank or 0)
    shape = tuple(
        frame.recorder.symbol(f"{name}_{axis}") if d is None else d
        for axis, d in enumerate(extents)
    )
    return emit_match_cast(frame, var, Tensor(shape, var.tensor.dtype), name)


def emit_match_cast(frame: FunctionFrame, var: Var, annotation: Annotation, name: str) -> Var:
    """Emit a match_cast; the bare symbols of the annotation are defined from here on."""
    (checked,) = frame.bind([name], [annotation], MatchCast(var))
    frame.defined.update(defined_by(annotation))
    return checked


def _infer_types(
    frame: FunctionFrame,
    record: OperatorRecord,
    args: tuple[Var | None, ...],
    attrs: Mapping[str, AttrValue],
    results: int,
) -> tuple[tuple[Tensor, ...], KnownDims | None]:
    """Infer the result types by the record's rule; errors name the line and the arguments.

    ImpliedBound is passed on: it restarts the trace with a tighter bound.
    """
    where, env = current_source(), frame.recorder.env
    site = Site(record.name, where, args, attrs, env, (None,) * len(args), results)
    try:
        check_site(record, site)
        with in_rule(site):
            return record.deduce(site), None
    except Unprovable as open_:
        dims = _coarse_dims(site, record.family)
        if dims is None:
            raise _error(ShapeError, site, f"nothing proves that {open_} agree") from None
        return (Tensor(None, _dtype(site), len(dims)),), dims
    except BadOperator:
        raise
    except IronworksError as error:
        raise _error(type(error), site, error.sentence.partition(": ")[2], error) from None
    except ImpliedBound:
        raise
    except Exception as problem:  # a fault of the rule itself
        raise fault(problem, "tracing") from problem


def _by_argument(
    frame: FunctionFrame,
    record: OperatorRecord,
    args: tuple[Var | None, ...],
    attrs: dict[str, AttrValue],
) -> tuple[tuple[Var | None, ...], dict[str, AttrValue]]:
    """Pass symbolic dims of attributes as arguments, which the host reads at run time."""
    arguments = list(args)
    for position, name in record.by_value.items():
        dims: Any = attrs.pop(name, None)
        if dims is not None:
            arguments += [None] * (position + 1 - len(arguments))
            shape = Tensor((len(dims),), "int64")
            (arguments[position],) = frame.bind(["dims"], [shape], ShapeOf(dims))
    return tuple(arguments), attrs


def _dtype(site: Site) -> str:
    if site.op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
        return "bool"
    return site.dtype(1 if site.op == "Where" else 0)


def _error(
    kind: type[IronworksError], site: Site, problem: str, cause: IronworksError | None = None
) -> IronworksError:
    operands = " and ".join(str(a.type) for a in site.present_args)
    return kind(
        f"{site.where}: {problem} ({site.op} of {operands})",
        where=site.where,
        expected="" if cause is None else cause.expected,
        actual=operands,
        try_="explorer.match_cast" if cause is None else cause.try_,
    )


def emit_shape(dims: tuple[Dim, ...], *, scalar: bool = False) -> TracedArray:
    """Emit dims as a small array, or a single dim as a scalar."""
    frame = current_frame()
    shape = () if scalar else (len(dims),)
    expr = ShapeOf(dims, 0 if scalar else 1)
    return bind(frame, expr, [Tensor(shape, "int64")], "dims")[0]


# Known dims of a result whose operand extents may or may not agree.


KnownDims = tuple[Dim | None, ...]


def _coarse_dims(site: Site, family: str) -> KnownDims | None:
    """Return the result's dims, None for each known only at run time; None for an unknown rank."""
    match site.op:
        case "Reshape":
            target = site.dims("shape") or ()
            return None if -1 in target else target
        case "Expand":
            return _broadcast_dims((site.shape(), site.dims("shape") or ()), site.env)
        case "MatMul" if len(site.shape(0)) > 1 and len(site.shape(1)) > 1:
            a, b = site.shape(0), site.shape(1)
            return (*_broadcast_dims((a[:-2], b[:-2]), site.env), a[-2], b[-1])
        case "BatchNormalization":
            return site.shape()  # the other arguments only match its channels
        case _ if family == "elementwise":
            return _broadcast_dims([site.shape(i) for i in range(len(site.present_args))], site.env)
    return None


def _broadcast_dims(shapes: tuple[Shape, ...] | list[Shape], env: ShapeEnv) -> KnownDims:
    """Return broadcast dims: an extent that is proved not to be 1 is the result's."""
    columns = zip_longest(*(tuple(reversed(s)) for s in shapes), fillvalue=1)
    return tuple(reversed([_common_extent(set(column), env) for column in columns]))


def _common_extent(extents: set[Dim], env: ShapeEnv) -> Dim | None:
    others = extents - {1}
    if len(others) < 2:
        return next(iter(others), 1)
    proved = [n for n in others if env.bounds(n)[0] > 1]
    return min(proved, key=str) if proved else None


# Operands.


PythonNumber = bool | int | float


def traced(value: Any) -> TracedArray:
    """Return a value as a traced array; arrays and numbers become constants of the program."""
    if isinstance(value, TracedArray):
        return value
    if isinstance(value, SymbolicDim):
        scalar = emit_shape((value.expr,), scalar=True)
        scalar.weak = True
        return scalar
    if isinstance(value, (list, tuple)) and any(is_traced(v) for v in value):
        stacked: TracedArray = TracedArray.functions.stack(list(value))
        return stacked
    if _is_replaced(value):
        replacement: TracedArray = current_frame().recorder.replaced[id(value)][1]
        return replacement
    if is_complex(value):
        raise DtypeError(
            f"{calling_line()}: expected a real array, found a complex one",
            where=calling_line(),
            expected="a real array",
            try_="its .real and .imag",
        )
    array = np.asarray(value)
    if array.dtype.name not in ITEM_BYTES:
        raise DtypeError(
            f"{calling_line()}: a program cannot hold an array of {array.dtype}",
            where=calling_line(),
            expected=", ".join(ITEM_BYTES),
            actual=array.dtype,
        )
    frame = current_frame()
    constant = frame.recorder.constant(Constant(array if is_immutable(array) else array.copy()))
    return TracedArray(constant, frame, weak=isinstance(value, PythonNumber))


def named_constant(name: str, constant: Constant) -> TracedArray:
    """Return a constant of the model's under that name."""
    frame = current_frame()
    return TracedArray(frame.recorder.constant(constant, name), frame)


def is_traced(value: Any) -> bool:
    """Return True if a value, or one nested in it, is known only at run time."""
    if isinstance(value, (TracedArray, SymbolicDim, ComplexArray)):
        return True
    if isinstance(value, np.ndarray):
        return _is_replaced(value)
    if isinstance(value, (list, tuple)):
        return any(is_traced(v) for v in value)
    if isinstance(value, slice):
        return any(is_traced(v) for v in (value.start, value.stop, value.step))
    return isinstance(value, dict) and any(is_traced(v) for v in value.values())


def _is_replaced(value: Any) -> bool:
    """Return True if elements of a NumPy array were replaced by traced values."""
    if not isinstance(value, np.ndarray) or not is_tracing():
        return False
    return id(value) in current_frame().recorder.replaced


def is_weak(value: Any) -> bool:
    """Return True if a value is, or stands for, a Python number."""
    if isinstance(value, TracedArray):
        return value.weak
    return isinstance(value, (PythonNumber, SymbolicDim)) and not isinstance(value, np.generic)


def kind_of(value: Any) -> Any:
    """Return the argument of NumPy's promotion for a value: a dtype, or Python's int or float."""
    if isinstance(value, SymbolicDim):
        return int
    if isinstance(value, TracedArray):
        if value.weak and value.dtype.kind in "if":
            return int if value.dtype.kind == "i" else float
        return value.dtype
    if isinstance(value, ComplexArray):
        return value.dtype
    if type(value) is complex or (is_weak(value) and not isinstance(value, bool)):
        return type(value)
    return np.asarray(value).dtype


def common_dtype(values: Sequence[Any]) -> np.dtype[np.generic]:
    """Return the promoted dtype of the values."""
    return np.result_type(*(_example(kind_of(v)) for v in values))


def _example(kind: Any) -> Any:
    return kind(0) if any(kind is number for number in (int, float, complex)) else kind


def converted(value: Any, dtype: Any) -> TracedArray:
    """Return the value in another dtype."""
    target = np.dtype(dtype)
    if not is_traced(value):
        return traced(np.asarray(value).astype(target))
    array = traced(value)
    if array.dtype == target:
        return TracedArray(array.value, array.home) if array.weak else array
    if target.name not in ITEM_BYTES:
        raise DtypeError(f"{calling_line()}: there are no kernels for {target}", actual=target)
    with attributed_to_call("astype"):  # `while b:` converts outside of any call
        if target.kind == "b":  # every number but 0 is true, also NaN
            zero = traced(np.zeros((), array.dtype))
            return emit("Not", emit("Equal", array, zero))
        cast = emit("Cast", array, to=dtype_of(np.empty(0, target)))
        return cast
