"""Expressions of a generated kernel as LLVM values: numbers, conditions, calls of intrinsics.

Types, conversions and operators of numbers are as in Numba.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.extending import _Intrinsic
from numba.np.numpy_support import from_dtype

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
DIVISIONS = ("udiv", "urem", "sdiv_down")  # and these, if the divisor is positive
BIT = ir.IntType(1)
CELLS: dict[Any, Any] = {
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
    types.boolean: BIT,
    **{getattr(types, f"{u}int{n}"): ir.IntType(n) for n in (8, 16, 32, 64) for u in ("", "u")},
}
INTEGER_OPERATORS = {"+": "add", "-": "sub", "*": "mul", "&": "and_", "|": "or_", "^": "xor"}
FLOAT_OPERATORS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}


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
        case ast.Call(ast.Name(name), [_, divisor]) if name in DIVISIONS:
            return _is_positive(divisor)
        case ast.Call(ast.Name(name)):
            return name in HARMLESS
    return False


def _is_positive(e: ast.expr) -> bool:
    """Return True for a positive number, also one added to a quotient by two or more."""
    match e:
        case ast.Constant(int() as number):
            return number > 0
        case ast.BinOp(
            least, ast.Add(), ast.Call(ast.Name("udiv"), [_, ast.Constant(int() as by)])
        ):
            return _is_positive(least) and by > 1
    return False


class NotTranslated(Exception):
    """A construct that only Numba's front end supports; Numba compiles the kernel then."""


@dataclass(frozen=True, slots=True)
class Number:
    """An LLVM value with its Numba type."""

    value: Any
    kind: Any


def cell_of(kind: Any) -> Any:
    """Return the LLVM type of a number, or of a tuple of equal ones."""
    if isinstance(kind, types.UniTuple):
        return ir.ArrayType(cell_of(kind.dtype), kind.count)
    if kind not in CELLS:
        raise NotTranslated(f"a value of type {kind}")
    return CELLS[kind]


def literal(value: float | int | bool, kind: Any) -> Number:
    """Return a number of the source as a constant."""
    return Number(ir.Constant(cell_of(kind), value), kind)


def is_real(kind: Any) -> bool:
    """Return True if a type is a float."""
    return isinstance(kind, types.Float)


def is_integer_type(kind: Any) -> bool:
    """Return True if a type is an integer; a bool is none."""
    return isinstance(kind, types.Integer)


def convert(b: Any, x: Number, kind: Any) -> Number:
    """Convert a number to another type: integers wrap, floats are rounded, a bool is 0 or 1."""
    if x.kind == kind:
        return x
    cell = cell_of(kind)
    if kind == types.boolean:
        zero = ir.Constant(x.value.type, 0)
        differ = b.fcmp_unordered if is_real(x.kind) else b.icmp_unsigned
        return Number(differ("!=", x.value, zero), kind)
    return Number(_converted(b, x, kind, cell), kind)


def _converted(b: Any, x: Number, kind: Any, cell: Any) -> Any:
    """Emit a conversion between two numeric types, neither of them bool."""
    signed = is_integer_type(x.kind) and x.kind.signed
    if is_real(x.kind):
        if is_real(kind):
            wider = kind.bitwidth > x.kind.bitwidth
            return (b.fpext if wider else b.fptrunc)(x.value, cell)
        return (b.fptosi if kind.signed else b.fptoui)(x.value, cell)
    if is_real(kind):
        return (b.sitofp if signed else b.uitofp)(x.value, cell)
    if cell.width == x.value.type.width:
        return x.value
    if cell.width < x.value.type.width:
        return b.trunc(x.value, cell)
    return (b.sext if signed else b.zext)(x.value, cell)


def common(x: Any, y: Any) -> Any:
    """Return the type that Numba computes with: the wider float, or 64 bits of an integer."""
    if is_real(x) and is_real(y):
        return x if x.bitwidth >= y.bitwidth else y
    if is_real(x) or is_real(y):
        raise NotTranslated(f"{x} with {y}")
    unsigned = [is_integer_type(k) and not k.signed for k in (x, y)]
    if all(unsigned):
        return types.uint64
    if any(k and t.bitwidth == 64 for k, t in zip(unsigned, (x, y), strict=True)):
        raise NotTranslated(f"{x} with {y}")
    return types.int64


def binary(b: Any, op: str, x: Number, y: Number) -> Number:
    """Emit `x op y`; small integers are widened before."""
    if x.kind == y.kind == types.boolean and op in ("&", "|", "^"):
        return Number(getattr(b, INTEGER_OPERATORS[op])(x.value, y.value), types.boolean)
    kind = common(x.kind, y.kind)
    left, right = convert(b, x, kind).value, convert(b, y, kind).value
    if op in ("<<", ">>") and kind == types.int64:
        return Number((b.shl if op == "<<" else b.ashr)(left, right), kind)
    names = FLOAT_OPERATORS if is_real(kind) else INTEGER_OPERATORS
    if op not in names:
        raise NotTranslated(f"{x.kind} {op} {y.kind}")
    return Number(getattr(b, names[op])(left, right), kind)


def compare(b: Any, op: str, x: Number, y: Number) -> Number:
    """Emit `x op y` as a bool; only `!=` is true for NaN."""
    both = x.kind == y.kind == types.boolean
    kind = types.boolean if both else common(x.kind, y.kind)
    left, right = convert(b, x, kind).value, convert(b, y, kind).value
    if is_real(kind):
        test = b.fcmp_unordered if op == "!=" else b.fcmp_ordered
    else:
        test = b.icmp_signed if kind == types.int64 else b.icmp_unsigned
    return Number(test(op, left, right), types.boolean)


def negative(b: Any, x: Number) -> Number:
    """Emit `-x`; small integers are widened before."""
    if is_real(x.kind):
        return Number(b.fneg(x.value), x.kind)
    kind = common(x.kind, x.kind)
    wide = convert(b, x, kind).value
    return Number(b.sub(ir.Constant(wide.type, 0), wide), kind)


def extreme(b: Any, name: str, x: Number, y: Number) -> Number:
    """Emit Python's `max` or `min` of two integers."""
    kind = common(x.kind, y.kind)
    if is_real(kind):
        raise NotTranslated(f"{name} of {x.kind}")
    left, right = convert(b, x, kind).value, convert(b, y, kind).value
    test = b.icmp_signed if kind.signed else b.icmp_unsigned
    return Number(b.select(test(">" if name == "max" else "<", right, left), right, left), kind)
