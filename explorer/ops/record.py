"""Operator records (shape rule, kernels, NumPy reference, ONNX name) and the sites of operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import onnx
from onnx import helper

from explorer.errors import IronworksError, ShapeError, UnsupportedOperator
from explorer.ir.calls import AttrValue, Var
from explorer.ir.dims import Dim, Shape, ShapeEnv
from explorer.ir.dtypes import ITEM_BYTES, numpy_dtype
from explorer.ir.types import DType, Tensor

if TYPE_CHECKING:
    from explorer.ops.lowering import Lowering

Array = np.ndarray
Values = np.ndarray  # of dtype object: dims, by element


def single(value: float) -> float:
    """Round a number to float32, as ONNX's attributes store it: 0.01 is 0.009999999776."""
    return float(np.float32(value))


@dataclass(frozen=True, slots=True)
class Site:
    """An operator with its attributes, and what is known of its arguments.

    `values` are the elements of small integer arguments, as dims, if deduction knows them.
    """

    op: str
    where: str
    args: tuple[Var | None, ...]
    attrs: Mapping[str, AttrValue]
    env: ShapeEnv = ShapeEnv()
    values: tuple[Values | None, ...] = ()
    results: int = 1

    def has(self, i: int) -> bool:
        """Return True if the argument is present."""
        return i < len(self.args) and self.args[i] is not None

    def arg(self, i: int) -> Var:
        """Return a required argument."""
        var = self.args[i] if i < len(self.args) else None
        return var if var is not None else self.fail(f"needs an argument at position {i}")

    def tensor(self, i: int) -> Tensor:
        """Return the annotation of an argument."""
        return self.arg(i).tensor

    def shape(self, i: int = 0) -> Shape:
        """Return the shape of an argument."""
        return self.tensor(i).dims

    def dtype(self, i: int = 0) -> DType:
        """Return the dtype of an argument."""
        return self.tensor(i).element

    @property
    def present_args(self) -> tuple[Var, ...]:
        """The arguments that are present."""
        return tuple(a for a in self.args if a is not None)

    def integer(self, name: str, default: int = 0) -> int:
        """Return an attribute that is one integer."""
        value = self.attrs.get(name)
        if value is None:
            return default
        return int(value) if isinstance(value, int) else self._not_a(name, "an integer")

    def number(self, name: str, default: float) -> float:
        """Return an attribute that is one number; defaults are rounded to float32 as in ONNX."""
        value = self.attrs.get(name)
        if value is None:
            return single(default)
        if isinstance(value, (int, float)):
            return float(value)
        return self._not_a(name, "a number")

    def _not_a(self, name: str, kind: str) -> NoReturn:
        value = self.attrs.get(name)
        self.fail(f"{name} must be {kind}, and is {value!r:.60}", expected=kind, actual=value)

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is a string."""
        value = self.attrs.get(name)
        return value if isinstance(value, str) else default

    def dims(self, name: str) -> tuple[Dim, ...] | None:
        """Return an attribute that is a list of dims, or None if it is missing."""
        value: Any = self.attrs.get(name)
        if value is None:
            return None
        return tuple(value) if isinstance(value, tuple) else (value,)

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...] | None:
        """Return an attribute that is a list of integers."""
        dims = self.dims(name)
        if dims is None:
            return None if default is None else tuple(default)
        if not all(isinstance(d, int) for d in dims):
            return self.fail(f"{name} must not depend on symbols, and is {dims}")
        return tuple(d for d in dims if isinstance(d, int))

    def axis(self, rank: int, default: int = 0, name: str = "axis", *, end: bool = False) -> int:
        """Return an attribute that counts dims, from the end if negative."""
        return self.in_rank(self.integer(name, default), rank + end)

    def axes(self, rank: int, name: str = "axes") -> tuple[int, ...] | None:
        """Return an attribute that names dims, in order, or None if it is missing."""
        integers = self.integers(name)
        return None if integers is None else tuple(self.in_rank(a, rank) for a in integers)

    def in_rank(self, axis: int, rank: int) -> int:
        """Return the dim of an axis, counted from the end if negative."""
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} is not in a tensor of rank {rank}")
        return axis % rank if rank else 0

    def fail(
        self,
        problem: str,
        kind: type[IronworksError] = ShapeError,
        *,
        expected: object = "",
        actual: object = "",
        try_: object = "",
    ) -> NoReturn:
        """Raise an error that names this operator and its site."""
        raise kind(
            f"{self.op} at {self.where!r}: {problem}",
            where=self.where,
            expected=expected,
            actual=actual,
            try_=try_,
        )

    def unsupported(self, problem: str) -> NoReturn:
        """Raise UnsupportedOperator: this form of the operator has no kernel rule."""
        self.fail(problem, UnsupportedOperator)


def same_type(site: Site) -> tuple[Tensor, ...]:
    """Return the annotation of the first argument, for a result like it."""
    return (site.tensor(0),)


# Element types by ONNX's numbers.


def code_of(dtype: DType) -> int:
    """Return ONNX's number of a dtype."""
    if dtype == "string":
        return int(onnx.TensorProto.STRING)
    return int(helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype)))


def dtype_of_code(site: Site, code: int) -> DType:
    """Return the dtype of one of ONNX's numbers.

    Raises UnsupportedOperator if no kernel computes with it.
    """
    if code == onnx.TensorProto.STRING:
        return "string"
    try:
        dtype = str(helper.tensor_dtype_to_np_dtype(code).name)
    except KeyError:
        dtype = str(code)
    return dtype if dtype in ITEM_BYTES else site.unsupported(f"elements of type {dtype}")


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
