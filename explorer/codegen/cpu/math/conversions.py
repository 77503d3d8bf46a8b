"""Types, conversions and operators of generated kernels' numbers as LLVM values, as in Numba."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types

BIT = ir.IntType(1)
CELLS: dict[Any, Any] = {
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
    types.boolean: BIT,
    **{getattr(types, f"{u}int{n}"): ir.IntType(n) for n in (8, 16, 32, 64) for u in ("", "u")},
}
INTEGER_OPERATORS = {"+": "add", "-": "sub", "*": "mul", "&": "and_", "|": "or_", "^": "xor"}
FLOAT_OPERATORS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}


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
