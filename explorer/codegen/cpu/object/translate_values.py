"""Expressions of a generated kernel as LLVM values: numbers, conditions, calls of intrinsics."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.extending import _Intrinsic
from numba.np.numpy_support import from_dtype

from explorer.codegen.cpu.math.conversions import (
    NotTranslated,
    Number,
    binary,
    cell_of,
    compare,
    convert,
    extreme,
    is_real,
    literal,
    negative,
)

OPERATORS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
HARMLESS = ("max", "min")  # calls that may be made whether or not they are needed
DIVISIONS = ("udiv", "urem", "sdiv_down")  # and these, where the divisor is a number


class _Context:
    """What an intrinsic may ask of Numba's context while it writes its code."""

    def get_dummy_value(self) -> Any:
        """The result of what has none."""
        return None

    def __getattr__(self, name: str) -> Any:
        raise NotTranslated(f"an intrinsic asks for {name}")


class Values:
    """Writes expressions where the builder `b` stands. Locals are stack slots, which LLVM turns
    into registers.
    """

    def __init__(self, b: Any, entry: Any, space: Mapping[str, Any]) -> None:
        self.b, self.entry, self.space = b, entry, space
        self.slots: dict[str, tuple[Any, Any]] = {}

    def assign(self, name: str, x: Number) -> None:
        """A local gets a value; its type is that of its first one."""
        if name not in self.slots:
            first = ir.IRBuilder(self.entry)
            self.slots[name] = (first.alloca(x.value.type, name=name), x.kind)
        slot, kind = self.slots[name]
        if kind != x.kind:
            raise NotTranslated(f"{name} is {kind} and {x.kind}")
        self.b.store(x.value, slot)

    def truth(self, e: ast.expr) -> Any:
        """A condition as one bit."""
        return convert(self.b, self.value(e), types.boolean).value

    def whole(self, e: ast.expr) -> Any:
        """A whole number of 64 bits."""
        x = self.value(e)
        if is_real(x.kind):
            raise NotTranslated(f"{ast.unparse(e)} is no whole number")
        return convert(self.b, x, types.int64).value

    def value(self, e: ast.expr) -> Number:
        """The value of an expression."""
        match e:
            case ast.Constant(bool() as value):
                return literal(value, types.boolean)
            case ast.Constant(int() as value) if -(2**63) <= value < 2**63:
                return literal(value, types.int64)
            case ast.UnaryOp(ast.USub(), ast.Constant(int() as value)) if value == 2**63:
                return literal(-value, types.int64)  # the least, which no other number negates to
            case ast.Constant(float() as value):
                return literal(value, types.float64)
            case ast.Name(name) if name in self.slots:
                slot, kind = self.slots[name]
                return Number(self.b.load(slot), kind)
            case ast.Attribute(ast.Name("math"), "nan" | "inf" as name):
                return literal(getattr(math, name), types.float64)
            case ast.Tuple(parts):
                return self.together([self.value(p) for p in parts])
            case ast.Call():
                found = self.call(e)
                if found is not None:
                    return found
        return self.operation(e)

    def operation(self, e: ast.expr) -> Number:
        """An operator with its operands."""
        match e:
            case ast.BinOp(x, op, y) if type(op) in OPERATORS:
                return binary(self.b, OPERATORS[type(op)], self.value(x), self.value(y))
            case ast.Compare(x, [op], [y]) if type(op) in OPERATORS:
                return compare(self.b, OPERATORS[type(op)], self.value(x), self.value(y))
            case ast.UnaryOp(ast.USub(), x):
                return negative(self.b, self.value(x))
            case ast.UnaryOp(ast.Not(), x):
                return Number(self.b.not_(self.truth(x)), types.boolean)
            case ast.BoolOp(op, parts) if all(_is_harmless(p) for p in parts[1:]):
                return self.joined(op, parts)
            case ast.IfExp(test, x, y) if _is_harmless(x) and _is_harmless(y):
                return self.chosen(test, x, y)
        raise NotTranslated(f"the expression {ast.unparse(e)}")

    def joined(self, op: ast.boolop, parts: list[ast.expr]) -> Number:
        """`and` or `or` of conditions that may all be looked at."""
        join = self.b.and_ if isinstance(op, ast.And) else self.b.or_
        bit = self.truth(parts[0])
        for p in parts[1:]:
            bit = join(bit, self.truth(p))
        return Number(bit, types.boolean)

    def chosen(self, test: ast.expr, x: ast.expr, y: ast.expr) -> Number:
        """`x if test else y`, both of which may be computed."""
        bit, yes, no = self.truth(test), self.value(x), self.value(y)
        if yes.kind != no.kind:
            raise NotTranslated(f"{yes.kind} or {no.kind}")
        return Number(self.b.select(bit, yes.value, no.value), yes.kind)

    def together(self, parts: list[Number]) -> Number:
        """A tuple of equal types."""
        if not parts or any(p.kind != parts[0].kind for p in parts):
            raise NotTranslated("a tuple of several types")
        kind = types.UniTuple(parts[0].kind, len(parts))
        made = ir.Constant(cell_of(kind), ir.Undefined)
        for n, p in enumerate(parts):
            made = self.b.insert_value(made, p.value, n)
        return Number(made, kind)

    def call(self, e: ast.Call) -> Number | None:
        """A call of an intrinsic, of a number's type, or of one of Python's own functions."""
        if not isinstance(e.func, ast.Name) or e.keywords:
            raise NotTranslated(f"the call {ast.unparse(e)}")
        name = e.func.id
        found = self.space.get(name)
        args = [self.value(a) for a in e.args]
        match found:
            case None if name in ("max", "min") and len(args) == 2:
                return extreme(self.b, name, *args)
            case None if name == "bool" and len(args) == 1:
                return convert(self.b, args[0], types.boolean)
            case type() if issubclass(found, np.generic) and len(args) == 1:
                return convert(self.b, args[0], from_dtype(np.dtype(found)))
            case _Intrinsic():
                return self.intrinsic(found, args)
        raise NotTranslated(f"the call {ast.unparse(e)}")

    def intrinsic(self, found: Any, args: list[Number]) -> Number | None:
        """The code that an intrinsic writes for these types."""
        made = found._defn(None, *(a.kind for a in args))
        if made is None:
            raise NotTranslated(f"{found} of {', '.join(str(a.kind) for a in args)}")
        signature, write = made
        given = [_given(self.b, a, t) for a, t in zip(args, signature.args, strict=True)]
        value = write(_Context(), self.b, signature, given)
        if signature.return_type == types.void:
            return None
        return Number(value, signature.return_type)


def _given(b: Any, x: Number, kind: Any) -> Any:
    """An argument as an intrinsic takes it; a float is not made a whole number unasked."""
    if x.kind != kind and (is_real(x.kind) or is_real(kind) or kind == types.boolean):
        raise NotTranslated(f"{x.kind} given for {kind}")
    return convert(b, x, kind).value


def _is_harmless(e: ast.expr) -> bool:
    """Whether it may be computed though nothing needs it: it loads, stores and traps nowhere."""
    return all(_may_be_called(n) for n in ast.walk(e) if isinstance(n, ast.Call))


def _may_be_called(call: ast.Call) -> bool:
    match call:
        case ast.Call(ast.Name(name), [_, ast.Constant(int() as divisor)]) if name in DIVISIONS:
            return divisor != 0
        case ast.Call(ast.Name(name)):
            return name in HARMLESS
    return False
