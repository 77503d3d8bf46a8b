"""Emission of operators into the current function.

Types are inferred at once, so that an error names the line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import onnx

from explorer.errors import BadOperator, IronworksError, ShapeError, fault
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.coarse import KnownDims, coarse_dims
from explorer.frontends.tracing.frames import FunctionFrame, current_frame, current_source
from explorer.ir.calls import AttrValue, Expr, MatchCast, OpCall, ShapeOf, Var
from explorer.ir.lattice import defined_by
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import Annotation, Tensor
from explorer.ops import RECORDS
from explorer.ops.arithmetic.broadcast import ImpliedBound, Unprovable
from explorer.ops.arithmetic.elementwise import snake_case
from explorer.ops.record import OperatorRecord
from explorer.ops.rules import check_site, in_rule
from explorer.ops.site import Site


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
        dims = coarse_dims(site, record.family)
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
