"""Substitution of values in the expressions that read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from explorer.ir.calls import (
    Branch,
    Expr,
    FunctionCall,
    Gradient,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    ShapeOf,
    Var,
    View,
)


def with_reads(expr: Expr, values: Mapping[str, Var]) -> Expr:
    """Replace named values in an expression by the given ones."""

    def new(var: Var) -> Var:
        return values.get(var.name, var)

    def some(vars: tuple[Var, ...]) -> tuple[Var, ...]:
        return tuple(map(new, vars))

    def optional(vars: tuple[Var | None, ...]) -> tuple[Var | None, ...]:
        return tuple(None if v is None else new(v) for v in vars)

    match expr:
        case OpCall() | LibraryCall():
            return replace(expr, args=optional(expr.args))
        case KernelCall():
            after = None if expr.after is None else new(expr.after)
            return replace(expr, args=some(expr.args), after=after)
        case FunctionCall():
            return replace(expr, args=some(expr.args))
        case Gradient():
            return replace(expr, args=some(expr.args), seeds=some(expr.seeds))
        case View() | MatchCast():
            return replace(expr, arg=new(expr.arg))
        case ShapeOf():
            return expr
        case Branch():
            return replace(expr, cond=new(expr.cond), args=some(expr.args))
        case Loop():
            trip = None if expr.trip is None else new(expr.trip)
            cond = None if expr.cond is None else new(expr.cond)
            return replace(expr, trip=trip, cond=cond, state=some(expr.state), args=some(expr.args))
    assert_never(expr)
