"""Operator records: shape rule, kernels, NumPy reference and ONNX name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from explorer.ir.shapes.dims import Dim
from explorer.ir.types import Tensor
from explorer.ops.site import Array, Site, Values

if TYPE_CHECKING:
    from explorer.ops.lowering import Lowering


@dataclass(frozen=True, slots=True)
class HostNumber:
    """One number that the host computes for an operator: its name and its bounds.

    Symbols are never negative, so a number that may be negative is two: `up` minus `down`. One with
    a `value` has no symbol; the match_cast compares the host's number with it.
    """

    name: str
    low: int = 0
    high: int | None = None
    value: Dim | None = None


@dataclass(frozen=True, slots=True)
class RunTime:
    """Rule for an operator whose shapes or indices are known only during a run.

    y = Slice(x, starts, ends)  ->  v: int64[2] = library shape.Slice(shape_of(x), starts, ends)
    d: shape[begin0, extent0] = match v; y: float32[extent0] = Slice(x, begin=(begin0,), ...)

    reads    the arguments whose values the host reads; of the others it gets the shape
    names    of a site: the numbers that the host computes
    values   at least these numbers by name, from attributes (`where` is the operator's site) and
             one array for each argument: its values or its shape; ShapeError if they do not fit
    rewrite  the site in symbolic form: the same or another operator, without the arguments read
    marked   an attribute that only the symbolic form of the same operator has
    tables   further arrays that the host computes, by name: arguments of the rewritten site
    table    one of them, by its name, from the arguments of `values`
    """

    reads: frozenset[int]
    names: Callable[[Site], tuple[HostNumber, ...]]
    values: Callable[[Mapping[str, Any], Sequence[Any]], Mapping[str, int]]
    rewrite: Callable[[Site, Mapping[str, Dim]], Site]
    marked: str = ""
    tables: Callable[[Site, Mapping[str, Dim]], Mapping[str, Tensor]] | None = None
    table: Callable[[str, Mapping[str, Any], Sequence[Any]], Array] | None = None


Deduce = Callable[[Site], tuple[Tensor, ...]]
Reference = Callable[[Mapping[str, Any], Sequence[Any]], Any]
Lower = Callable[["Lowering"], None]
Fold = Callable[[Site], "tuple[Values | None, ...]"]


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """One operator of the language; `name` is ONNX's.

    deduce     annotations of the results from those of the arguments
    reference  the results from attributes and arrays: one array, or a tuple of them
    lower      the operator as kernels, views or constants
    fold       the results' elements as dims, if the arguments' elements are known
    by_value   arguments that are read when the model is compiled: position -> attribute
    dtype_from the argument whose dtype becomes the attribute `dtype`, so that it is preserved
    first      the first version of the ONNX operator set that is accepted
    run_time   the rule for values of `by_value` that are known only during a run
    ranks      the least and the greatest rank (None: any) of arguments that the rules assume
    """

    name: str
    family: str
    deduce: Deduce
    reference: Reference
    lower: Lower
    fold: Fold | None = None
    by_value: Mapping[int, str] = field(default_factory=dict)
    dtype_from: int | None = None
    first: int = 7
    run_time: RunTime | None = None
    ranks: Mapping[int, tuple[int, int | None]] = field(default_factory=dict)


def arguments_by_value(record: OperatorRecord, site: Site) -> Site:
    """Turn the arguments that are read when compiling into attributes, if all are known."""
    attrs, args = dict(site.attrs), list(site.args)
    if record.dtype_from is not None and site.has(record.dtype_from):
        attrs["dtype"] = site.dtype(record.dtype_from)
    for position, name in record.by_value.items():
        if position < len(args) and args[position] is not None:
            value = site.values[position]
            if value is None:
                return site
            attrs[name] = value.item() if value.ndim == 0 else tuple(value.tolist())
            args[position] = None
    while args and args[-1] is None:
        args.pop()
    return Site(site.op, site.where, tuple(args), attrs, site.env, site.values, site.results)
