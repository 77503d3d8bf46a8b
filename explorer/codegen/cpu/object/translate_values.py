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
HARMLESS = ("max", "min")  # calls that may be evaluated speculatively
DIVISIONS = ("udiv", "urem", "sdiv_down")  # and these, if the divisor is a constant


class _Context:
    """The part of Numba's context that intrinsics use."""

    def get_dummy_value(self) -> Any:
        """Return the result of an intrinsic without one."""
        return None

    def __getattr__(self, name: str) -> Any:
        """Raise NotTranslated: an intrinsic needs more of the context."""
        raise NotTranslated(f"an intrinsic needs the context's {name}")


class Values:
    """A translator of expressions at a builder's position; locals are stack slots.

    LLVM turns the slots into registers.
    """

    def __init__(self, b: Any, entry: Any, space: Mapping[str, Any]) -> None:
        """Create a translator; `entry` holds the slots, `space` the names of the kernel's head."""
        self.b, self.entry, self.space = b, entry, space
        self.slots: dict[str, tuple[Any, Any]] = {}

    def assign(self, name: str, x: Number) -> None:
        """Store a value in a local, whose type is that of its first value."""
        if name not in self.slots:
            first = ir.IRBuilder(self.entry)
            self.slots[name] = (first.alloca(x.value.type, name=name), x.kind)
        slot, kind = self.slots[name]
        if kind != x.kind:
            raise NotTranslated(f"{name} is {kind} and {x.kind}")
        self.b.store(x.value, slot)

    def truth(self, e: ast.expr) -> Any:
        """Return a condition as one bit."""
        return convert(self.b, self.value(e), types.boolean).value

    def integer(self, e: ast.expr) -> Any:
        """Return an integer of 64 bits."""
        x = self.value(e)
        if is_real(x.kind):
            raise NotTranslated(f"{ast.unparse(e)} is no integer")
        return convert(self.b, x, types.int64).value

    def value(self, e: ast.expr) -> Number:
        """Return the value of an expression."""
        match e:
            case ast.Constant(bool() as value):
                return literal(value, types.boolean)
            case ast.Constant(int() as value) if -(2**63) <= value < 2**63:
                return literal(value, types.int64)
            case ast.UnaryOp(ast.USub(), ast.Constant(int() as value)) if value == 2**63:
                return literal(-value, types.int64)  # the least int64 has no positive counterpart
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
                result = self.call(e)
                if result is not None:
                    return result
        return self.operation(e)

    def operation(self, e: ast.expr) -> Number:
        """Return the value of an operator and its operands."""
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
        """Return `and` or `or` of conditions that may all be evaluated."""
        join = self.b.and_ if isinstance(op, ast.And) else self.b.or_
        bit = self.truth(parts[0])
        for p in parts[1:]:
            bit = join(bit, self.truth(p))
        return Number(bit, types.boolean)

    def chosen(self, test: ast.expr, x: ast.expr, y: ast.expr) -> Number:
        """Return `x if test else y`; both are evaluated."""
        bit, yes, no = self.truth(test), self.value(x), self.value(y)
        if yes.kind != no.kind:
            raise NotTranslated(f"{yes.kind} or {no.kind}")
        return Number(self.b.select(bit, yes.value, no.value), yes.kind)

    def together(self, parts: list[Number]) -> Number:
        """Return a tuple of equal types."""
        if not parts or any(p.kind != parts[0].kind for p in parts):
            raise NotTranslated("a tuple of several types")
        kind = types.UniTuple(parts[0].kind, len(parts))
        pack = ir.Constant(cell_of(kind), ir.Undefined)
        for n, p in enumerate(parts):
            pack = self.b.insert_value(pack, p.value, n)
        return Number(pack, kind)

    def call(self, e: ast.Call) -> Number | None:
        """Return a call of an intrinsic, of a number's type, or of a Python function."""
        if not isinstance(e.func, ast.Name) or e.keywords:
            raise NotTranslated(f"the call {ast.unparse(e)}")
        name = e.func.id
        function = self.space.get(name)
        args = [self.value(a) for a in e.args]
        match function:
            case None if name in ("max", "min") and len(args) == 2:
                return extreme(self.b, name, *args)
            case None if name == "bool" and len(args) == 1:
                return convert(self.b, args[0], types.boolean)
            case type() if issubclass(function, np.generic) and len(args) == 1:
                return convert(self.b, args[0], from_dtype(np.dtype(function)))
            case _Intrinsic():
                return self.intrinsic(function, args)
        raise NotTranslated(f"the call {ast.unparse(e)}")

    def intrinsic(self, function: Any, args: list[Number]) -> Number | None:
        """Return an intrinsic's value for arguments of these types; None if it has none."""
        definition = function._defn(None, *(a.kind for a in args))
        if definition is None:
            raise NotTranslated(f"{function} of {', '.join(str(a.kind) for a in args)}")
        signature, write = definition
        arguments = [_as_argument(self.b, a, t) for a, t in zip(args, signature.args, strict=True)]
        value = write(_Context(), self.b, signature, arguments)
        if signature.return_type == types.void:
            return None
        return Number(value, signature.return_type)


def _as_argument(b: Any, x: Number, kind: Any) -> Any:
    """Return an argument in an intrinsic's type; no implicit conversion to or from floats."""
    if x.kind != kind and (is_real(x.kind) or is_real(kind) or kind == types.boolean):
        raise NotTranslated(f"an argument of type {x.kind}, expected {kind}")
    return convert(b, x, kind).value


def _is_harmless(e: ast.expr) -> bool:
    """Return True if an expression may be evaluated speculatively: no load, store or trap."""
    return all(_may_be_called(n) for n in ast.walk(e) if isinstance(n, ast.Call))


def _may_be_called(call: ast.Call) -> bool:
    match call:
        case ast.Call(ast.Name(name), [_, ast.Constant(int() as divisor)]) if name in DIVISIONS:
            return divisor != 0
        case ast.Call(ast.Name(name)):
            return name in HARMLESS
    return False
