"""One operator recorded: its annotation is deduced at once, so that an error names the line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import onnx

from explorer.errors import BadOperator, IronworksError, ShapeError, fault
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.coarse import Known, coarse_dims
from explorer.frontends.tracing.frames import Frame, current_frame, current_source
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
    dims: Known | None = None,
    **attrs: AttrValue,
) -> TracedArray:
    """What an operator of one result gives.

    `types` states the annotations, for an operator that has no record, or together with the `dims`
    that are known where values of the run decide. A dim that is not known, or cannot be proved,
    gets a fresh symbol, which the run defines.
    """
    (found,) = emit_several(op, 1, *args, types=types, dims=dims, **attrs)
    return found


def emit_several(
    op: str,
    results: int,
    /,
    *args: TracedArray | None,
    types: Sequence[Annotation] | None = None,
    dims: Known | None = None,
    **attrs: AttrValue,
) -> tuple[TracedArray, ...]:
    """What an operator gives, as many values as are asked for."""
    frame, record = current_frame(), RECORDS.get(op)
    own = tuple(None if a is None else frame.own(a.value, a.home) for a in args)
    given = {name: value for name, value in attrs.items() if value is not None}
    if record is None:
        given["opset"] = onnx.defs.onnx_opset_version()
    if record is not None and dims is None:
        types, dims = _deduced(frame, record, own, given, results)
        if dims is not None:  # the run checks what was not proved
            own, given = _by_argument(frame, record, own, given)
    assert types is not None, f"{op} has no record, and its types are not stated"
    call = OpCall(op, own, tuple(given.items()))
    return tuple(bind(frame, call, types, snake_case(op), [] if dims is None else [dims]))


def bind(
    frame: Frame,
    expr: Expr,
    types: Sequence[Annotation],
    name: str,
    dims: Sequence[Known] = (),
) -> list[TracedArray]:
    """The values of an expression, each with known dims: by a match_cast where they are not.

    `dims` are those that are known of each value although its annotation has none.
    """
    open_ = [isinstance(t, Tensor) and t.shape is None for t in types]
    names = [f"{name}.found" if o else name for o in open_]
    raw = frame.bind(names, types, expr)
    found = []
    for var, is_open, known_dims in zip_longest(raw, open_, dims):
        known = cast(frame, var, known_dims, name) if is_open else var
        found.append(TracedArray(known, frame))
    return found


def cast(frame: Frame, var: Var, dims: Known | None, name: str) -> Var:
    """A match_cast that gives a symbol to each dim that is not known."""
    known = dims if dims is not None else (None,) * (var.tensor.rank or 0)
    shape = tuple(
        frame.recorder.symbol(f"{name}_{axis}") if d is None else d for axis, d in enumerate(known)
    )
    return matched(frame, var, Tensor(shape, var.tensor.dtype), name)


def matched(frame: Frame, var: Var, annotation: Annotation, name: str) -> Var:
    """A match_cast; the symbols that stand bare in the annotation are defined from here on."""
    (found,) = frame.bind([name], [annotation], MatchCast(var))
    frame.defined.update(defined_by(annotation))
    return found


def _deduced(
    frame: Frame,
    record: OperatorRecord,
    args: tuple[Var | None, ...],
    attrs: Mapping[str, AttrValue],
    results: int,
) -> tuple[tuple[Tensor, ...], Known | None]:
    """What the record's rule says; errors name the line and the arguments.

    ImpliedBound ends this try at the trace.
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
    except Exception as problem:  # no answer of a rule
        raise fault(problem, "tracing") from problem


def _by_argument(
    frame: Frame,
    record: OperatorRecord,
    args: tuple[Var | None, ...],
    attrs: dict[str, AttrValue],
) -> tuple[tuple[Var | None, ...], dict[str, AttrValue]]:
    """Dims among the attributes as arguments, which the host reads when it is run."""
    found = list(args)
    for position, name in record.by_value.items():
        dims: Any = attrs.pop(name, None)
        if dims is not None:
            found += [None] * (position + 1 - len(found))
            shape = Tensor((len(dims),), "int64")
            (found[position],) = frame.bind(["dims"], [shape], ShapeOf(dims))
    return tuple(found), attrs


def _dtype(site: Site) -> str:
    if site.op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
        return "bool"
    return site.dtype(1 if site.op == "Where" else 0)


def _error(
    kind: type[IronworksError], site: Site, problem: str, said: IronworksError | None = None
) -> IronworksError:
    given = " and ".join(str(a.type) for a in site.given)
    return kind(
        f"{site.where}: {problem} ({site.op} of {given})",
        where=site.where,
        expected="" if said is None else said.expected,
        found=given,
        try_="explorer.match_cast" if said is None else said.try_,
    )


def emit_shape(dims: tuple[Dim, ...], *, scalar: bool = False) -> TracedArray:
    """Dims as a small array, or one of them as a scalar."""
    frame = current_frame()
    shape = () if scalar else (len(dims),)
    expr = ShapeOf(dims, 0 if scalar else 1)
    return bind(frame, expr, [Tensor(shape, "int64")], "dims")[0]
