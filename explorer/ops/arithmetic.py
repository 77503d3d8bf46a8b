"""Elementwise operators of several arguments, with broadcasting: arithmetic, comparisons, bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import count
from typing import Any

import numpy as np

from explorer.ir.calls import Var
from explorer.ir.dims import simplify
from explorer.ir.dtypes import is_float, is_integer
from explorer.ir.kernel import Const, Expr
from explorer.ir.scalar_functions import divide, shift_left, shift_right
from explorer.ir.scalar_functions import power as raised
from explorer.ir.types import DType, Tensor
from explorer.ops.elementwise import call, snake_case, unary
from explorer.ops.lowering import Lowering, Number
from explorer.ops.record import Array, OperatorRecord, Site
from explorer.ops.run_time import broadcast_rule
from explorer.ops.shape_rules import (
    FoldEach,
    broadcast,
    compare,
    fold_each,
    is_at_most,
    is_equal,
    is_less,
    least,
    most,
    negate,
    quotient,
    remainder,
    times,
    total,
    truncated_remainder,
)

Combine = Callable[[Site, list[Expr], DType], Expr]


def _types(result: DType | None, of: int = 0) -> Callable[[Site], tuple[Tensor, ...]]:
    """Return a shape rule that broadcasts; the dtype is `result`, or that of one argument."""

    def deduce(site: Site) -> tuple[Tensor, ...]:
        dtypes = {site.dtype(i) for i in range(of, len(site.args))}
        if len(dtypes) > 1 and site.op != "Pow":
            site.fail(f"arguments of different dtypes: {', '.join(sorted(dtypes))}")
        shape = broadcast(site, [site.shape(i) for i in range(len(site.args))])
        return (Tensor(shape, result or site.dtype(of)),)

    return deduce


def broadcasting(
    name: str,
    combine: Combine,
    reference: Callable[..., Any],
    fold: FoldEach | None = None,
    dtype: DType | None = None,
    *,
    in_parts: bool = False,
) -> OperatorRecord:
    """Return the record of a broadcasting elementwise operator.

    `in_parts` splits a call with many arguments, from the left.
    """

    def lower(low: Lowering, result: Var, args: Sequence[Var]) -> None:
        nest, site = low.nest(snake_case(name)), low.site
        names = "ab" if len(args) == 2 else [f"x{i}" for i in range(len(args))]
        nest.map(
            "y",
            result,
            lambda axes: combine(
                site,
                [nest.along(a, n, axes) for a, n in zip(args, names, strict=True)],
                site.dtype(),
            ),
        )

    def lower_whole(low: Lowering) -> None:
        if len(low.site.present_args) > MOST_OPERANDS:
            low.site.unsupported(f"more than {MOST_OPERANDS} arguments in one expression")
        lower(low, low.result, low.site.present_args)

    return OperatorRecord(
        name,
        "elementwise",
        _types(dtype),
        lambda attrs, args: reference(attrs, args),
        _lower_in_parts(lower) if in_parts else lower_whole,
        fold_each(fold) if fold else None,
        run_time=broadcast_rule(name),
    )


MOST_OPERANDS = 32  # of one kernel: its expression nests as deep


def _lower_in_parts(
    lower: Callable[[Lowering, Var, Sequence[Var]], None],
) -> Callable[[Lowering], None]:
    """Lower an operator from the left, a limited number of arguments at a time.

    y = a + b + c + ...   ->   t = a + b + ...; y = t + c + ...
    """

    def each(low: Lowering) -> None:
        args: tuple[Var, ...] = low.site.present_args
        for n in count(1):
            if len(args) <= MOST_OPERANDS:
                return lower(low, low.result, args)
            part = low.temporary(f"part{n}", low.shape, low.site.dtype())
            lower(low, part, args[:MOST_OPERANDS])
            args = (part, *args[MOST_OPERANDS:])

    return each


def binary(
    name: str,
    op: str,
    reference: Callable[[Any, Any], Any],
    fold: FoldEach | None = None,
    dtype: DType | None = None,
) -> OperatorRecord:
    """Return the record of `op(a, b)`; more than two arguments are folded from the left."""
    return broadcasting(
        name,
        lambda site, xs, t: reduce(lambda a, b: call(op, a, b), xs),
        lambda attrs, args: reduce(reference, args),
        fold,
        dtype,
        in_parts=True,
    )


# Operators of more than one scalar function.


def _mean(site: Site, xs: list[Expr], t: DType) -> Expr:
    added = reduce(lambda a, b: call("add", a, b), xs)
    return call("mul", added, 1 / len(xs), dtype=t) if len(xs) > 1 else added


def _modulo(site: Site, xs: list[Expr], t: DType) -> Expr:
    a, b = xs
    if not site.integer("fmod"):
        return call("mod", a, b)
    if is_integer(t):
        left = call("sub", a, call("mul", b, call("div", a, b)))
        return call("where", call("eq", b, 0, dtype=t), Const(0, t), left)
    below = call("lt", a, 0, dtype=t)
    size = call("mod", call("where", below, call("neg", a), a), call("abs", b))
    return call("where", below, call("neg", size), size)


def power(x: Expr, exponent: Number | None, by: Expr, dtype: DType) -> Expr:
    """Return `x ** exponent`, by products and roots instead of `pow` if they give it."""
    if is_float(dtype):
        root = call("sqrt", x)
        match exponent:
            case 1:
                return x
            case 3:
                return call("mul", call("mul", x, x), x)
            case 0.5:
                return root
            case 0.75:
                return call("mul", root, call("sqrt", root))
            case -1:
                return call("div", Const(1.0, dtype), x)
            case -0.5:
                return call("div", Const(1.0, dtype), root)
    return call("mul", x, x) if exponent == 2 else call("pow", x, by)


def _lower_power(low: Lowering) -> None:
    nest, (x, y), site = low.nest("pow"), low.site.present_args, low.site

    def body(axes: Any) -> Expr:
        base, by = nest.along(x, "a", axes), nest.along(y, "b", axes)
        if is_integer(site.dtype()) and is_float(site.dtype(1)):
            wide = call("pow", call("cast_float64", base), call("cast_float64", by))
            return call(f"cast_{site.dtype()}", wide)
        if site.dtype(1) != site.dtype():
            by = call(f"cast_{site.dtype()}", by)
        return power(base, low.scalar(y), by, site.dtype())

    nest.map("y", low.result, body)


def _power_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, y = args
    if x.dtype.kind in "iu" and y.dtype.kind == "f":
        return np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    return raised(x, y.astype(x.dtype))


def _slope(site: Site, xs: list[Expr], t: DType) -> Expr:
    x, slope = xs
    return call("where", call("le", x, 0, dtype=t), call("mul", x, slope), x)


def _fold_modulo(site: Site) -> tuple[Array | None, ...]:
    return fold_each(truncated_remainder if site.integer("fmod") else remainder)(site)


def _modulo_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    return (np.fmod if attrs.get("fmod") else np.mod)(*args)


# Where.


def _where_types(site: Site) -> tuple[Tensor, ...]:
    if site.dtype(0) != "bool":
        site.fail(f"the condition must be bool and is {site.dtype(0)}")
    return _types(None, of=1)(site)


def _lower_where(low: Lowering) -> None:
    nest, args = low.nest("where"), low.site.present_args
    nest.map(
        "y",
        low.result,
        lambda axes: call(
            "where", *(nest.along(a, n, axes) for a, n in zip(args, "cab", strict=True))
        ),
    )


def _fold_where(site: Site) -> tuple[Array | None, ...]:
    condition, a, b = site.values
    if condition is None or a is None or b is None:
        return (None,)
    return (np.where(condition.astype(bool), a, b).astype(object),)


# Clip: limits are attributes before version 11, arguments since.


def _clip_types(site: Site) -> tuple[Tensor, ...]:
    for i in (1, 2):
        if site.has(i) and broadcast(site, [site.shape(), site.shape(i)]) != site.shape():
            site.fail(
                f"a limit of shape {list(site.shape(i))} for elements of {list(site.shape())}",
                expected="a limit that is one number",
                try_="Min and Max, which broadcast",
            )
    return (site.tensor(0),)


def _lower_clip(low: Lowering) -> None:
    nest, site, dtype = low.nest("clip"), low.site, low.site.dtype()

    def body(axes: Any) -> Expr:
        x = nest.along(site.arg(0), "x", axes)
        for position, name, op in ((1, "min", "max"), (2, "max", "min")):
            if site.has(position):
                x = call(op, x, nest.along(site.arg(position), name, axes))
            elif name in site.attrs:
                x = call(op, x, site.number(name, 0.0), dtype=dtype)
        return x

    nest.map("y", low.result, body)


def _clip_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, low, high = (*args, None, None)[:3]
    low = attrs.get("min") if low is None else low
    high = attrs.get("max") if high is None else high
    x = x if low is None else np.maximum(x, np.asarray(low, x.dtype))
    return x if high is None else np.minimum(x, np.asarray(high, x.dtype))


# Bitwise operators of integers.


def _shift(site: Site, xs: list[Expr], t: DType) -> Expr:
    return call("shl" if _is_left(site.text("direction", "")) else "shr", *xs)


def _is_left(direction: str) -> bool:
    return direction.upper() == "LEFT"


def _shift_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    return (shift_left if _is_left(attrs["direction"]) else shift_right)(*args)


RECORDS = (
    binary("Add", "add", np.add, total),
    binary("Sub", "sub", np.subtract, lambda env, v: simplify(v[0] - v[1])),
    binary("Mul", "mul", np.multiply, times),
    binary("Div", "div", divide, quotient),
    binary("Sum", "add", np.add),
    binary("Max", "max", np.maximum, most),
    binary("Min", "min", np.minimum, least),
    broadcasting("Mean", _mean, lambda attrs, args: reduce(np.add, args) / len(args)),
    replace(broadcasting("Mod", _modulo, _modulo_reference), fold=_fold_modulo),
    OperatorRecord(
        "Pow",
        "elementwise",
        _types(None),
        _power_reference,
        _lower_power,
        run_time=broadcast_rule("Pow"),
    ),
    broadcasting("PRelu", _slope, lambda attrs, v: np.where(v[0] < 0, v[0] * v[1], v[0])),
    # comparisons
    binary("Equal", "eq", np.equal, compare(is_equal), "bool"),
    binary(
        "Greater",
        "gt",
        np.greater,
        compare(lambda low, high: negate(is_at_most(low, high))),
        "bool",
    ),
    binary("Less", "lt", np.less, compare(is_less), "bool"),
    binary(
        "GreaterOrEqual",
        "ge",
        np.greater_equal,
        compare(lambda low, high: negate(is_less(low, high))),
        "bool",
    ),
    binary("LessOrEqual", "le", np.less_equal, compare(is_at_most), "bool"),
    # logic
    binary("And", "and", np.logical_and, lambda env, v: bool(v[0] and v[1])),
    binary("Or", "or", np.logical_or, lambda env, v: bool(v[0] or v[1])),
    binary("Xor", "xor", np.logical_xor, lambda env, v: bool(v[0]) != bool(v[1])),
    OperatorRecord(
        "Where",
        "elementwise",
        _where_types,
        lambda attrs, args: np.where(*args),
        _lower_where,
        _fold_where,
        run_time=broadcast_rule("Where"),
    ),
    OperatorRecord("Clip", "elementwise", _clip_types, _clip_reference, _lower_clip),
    binary("BitwiseAnd", "bitand", np.bitwise_and),
    binary("BitwiseOr", "bitor", np.bitwise_or),
    binary("BitwiseXor", "bitxor", np.bitwise_xor),
    unary("BitwiseNot", lambda site, x, t: call("bitnot", x), lambda a, v: np.bitwise_not(v[0])),
    broadcasting("BitShift", _shift, _shift_reference),
)
