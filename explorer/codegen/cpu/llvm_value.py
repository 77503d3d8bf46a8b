"""Arithmetic on LLVM values with Python's operators, for one number or a vector of them.

Emitters query the target of the code being emitted for its features.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from explorer.devices.isa import InstructionSet

FLOAT, DOUBLE, BIT = ir.FloatType(), ir.DoubleType(), ir.IntType(1)
SHORT = {FLOAT: "f32", DOUBLE: "f64"}
IN_L2, IN_L1 = 2, 3  # LLVM's prefetch localities
ANY = InstructionSet()
_now: ContextVar[InstructionSet] = ContextVar("target", default=ANY)


def element(kind: Any) -> Any:
    """Return the type of one number."""
    return kind.element if isinstance(kind, ir.VectorType) else kind


def like(kind: Any, scalar: Any) -> Any:
    """Return the type with as many lanes as `kind`, each of the given scalar type."""
    return ir.VectorType(scalar, kind.count) if isinstance(kind, ir.VectorType) else scalar


def constant(kind: Any, value: Any) -> Any:
    """Return a constant with one number in every lane."""
    scalar = element(kind)
    if scalar == FLOAT:
        value = float(np.float32(value))
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def suffix(kind: Any) -> str:
    """Return the suffix of a type in the names of LLVM's intrinsics."""
    scalar = element(kind)
    name = SHORT.get(scalar) or f"i{scalar.width}"
    return f"v{kind.count}{name}" if isinstance(kind, ir.VectorType) else name


def call_intrinsic(b: Any, name: str, result: Any, *args: Any, flags: tuple[str, ...] = ()) -> Any:
    """Emit a call of an LLVM intrinsic under its full name, also on vectors."""
    declared = b.module.globals
    kind = ir.FunctionType(result, [a.type for a in args])
    function = declared[name] if name in declared else ir.Function(b.module, kind, name)
    return b.call(function, list(args), fastmath=flags)


def prefetch_line(b: Any, address: Any, locality: int = IN_L1) -> None:
    """Prefetch the line at an integer address, which may be invalid."""
    at = b.inttoptr(address, ir.IntType(8).as_pointer())
    hints = (ir.IntType(32)(n) for n in (0, locality, 1))  # to be read, where, data
    call_intrinsic(b, "llvm.prefetch.p0", ir.VoidType(), at, *hints)


@dataclass(frozen=True, slots=True)
class LlvmValue:
    """An LLVM value and the builder that emits more code.

    Products and sums may be contracted to fused multiply-adds; nothing is reordered.
    """

    b: Any
    v: Any

    def of(self, other: Any) -> Any:
        """Return a number or a term as a value of this type."""
        return other.v if isinstance(other, LlvmValue) else constant(self.v.type, other)

    def _two(self, name: str, other: Any) -> LlvmValue:
        if element(self.v.type) in SHORT:
            return LlvmValue(
                self.b, getattr(self.b, f"f{name}")(self.v, self.of(other), ("contract",))
            )
        return LlvmValue(self.b, getattr(self.b, name)(self.v, self.of(other)))

    def __add__(self, other: Any) -> LlvmValue:
        """Emit a sum."""
        return self._two("add", other)

    def __sub__(self, other: Any) -> LlvmValue:
        """Emit a difference."""
        return self._two("sub", other)

    def __mul__(self, other: Any) -> LlvmValue:
        """Emit a product."""
        return self._two("mul", other)

    def __truediv__(self, other: Any) -> LlvmValue:
        """Emit a quotient."""
        return self._two("div", other)

    def __radd__(self, other: Any) -> LlvmValue:
        """Emit a sum with a number."""
        return self + other

    def __rmul__(self, other: Any) -> LlvmValue:
        """Emit a product with a number."""
        return self * other

    def __rsub__(self, other: Any) -> LlvmValue:
        """Emit a number minus this."""
        return LlvmValue(self.b, self.of(other)) - self

    def __rtruediv__(self, other: Any) -> LlvmValue:
        """Emit a number divided by this."""
        return LlvmValue(self.b, self.of(other)) / self

    def __neg__(self) -> LlvmValue:
        """Emit the negative."""
        return LlvmValue(self.b, self.b.fneg(self.v))

    def __and__(self, other: Any) -> LlvmValue:
        """Emit a bitwise and."""
        return LlvmValue(self.b, self.b.and_(self.v, self.of(other)))

    def __or__(self, other: Any) -> LlvmValue:
        """Emit a bitwise or."""
        return LlvmValue(self.b, self.b.or_(self.v, self.of(other)))

    def __xor__(self, other: Any) -> LlvmValue:
        """Emit a bitwise exclusive or."""
        return LlvmValue(self.b, self.b.xor(self.v, self.of(other)))

    def __lshift__(self, other: int) -> LlvmValue:
        """Emit a left shift."""
        return LlvmValue(self.b, self.b.shl(self.v, self.of(other)))

    def __rshift__(self, other: int) -> LlvmValue:
        """Emit an arithmetic right shift."""
        return LlvmValue(self.b, self.b.ashr(self.v, self.of(other)))

    def __lt__(self, other: Any) -> LlvmValue:
        """Emit an ordered `<`."""
        return self.compare("<", other)

    def __gt__(self, other: Any) -> LlvmValue:
        """Emit an ordered `>`."""
        return self.compare(">", other)

    def __ge__(self, other: Any) -> LlvmValue:
        """Emit an ordered `>=`."""
        return self.compare(">=", other)

    def equals(self, other: Any) -> LlvmValue:
        """Emit an ordered comparison for equality."""
        return self.compare("==", other)

    def compare(self, predicate: str, other: Any) -> LlvmValue:
        """Emit an ordered comparison: false if one is NaN."""
        if element(self.v.type) in SHORT:
            return LlvmValue(self.b, self.b.fcmp_ordered(predicate, self.v, self.of(other)))
        return LlvmValue(self.b, self.b.icmp_signed(predicate, self.v, self.of(other)))

    def not_at_least(self, other: Any) -> LlvmValue:
        """Emit an unordered `<`: true also if one is NaN."""
        return LlvmValue(self.b, self.b.fcmp_unordered("<", self.v, self.of(other)))

    @property
    def is_nan(self) -> LlvmValue:
        """The condition that this is NaN."""
        return LlvmValue(self.b, self.b.fcmp_unordered("uno", self.v, self.v))

    def where(self, yes: Any, no: Any) -> LlvmValue:
        """Emit `yes` where this is true, else `no`; one of them is a term."""
        like_ = yes if isinstance(yes, LlvmValue) else no
        return LlvmValue(self.b, self.b.select(self.v, like_.of(yes), like_.of(no)))

    def least(self, limit: Any) -> LlvmValue:
        """Emit a lower bound; NaN stays."""
        low = LlvmValue(self.b, self.of(limit))
        return (low > self).where(low, self)

    def most(self, limit: Any) -> LlvmValue:
        """Emit an upper bound; NaN stays."""
        high = LlvmValue(self.b, self.of(limit))
        return (high < self).where(high, self)

    def call(self, name: str, *others: Any) -> LlvmValue:
        """Emit an LLVM intrinsic of values of this type."""
        args = (self.v, *(self.of(o) for o in others))
        return LlvmValue(
            self.b, call_intrinsic(self.b, f"{name}.{suffix(self.v.type)}", self.v.type, *args)
        )

    @property
    def size(self) -> LlvmValue:
        """The absolute value."""
        return self.call("llvm.fabs")

    @property
    def nearest(self) -> LlvmValue:
        """The nearest integer, to even in a tie, as a float."""
        return self.call("llvm.nearbyint")

    def with_sign(self, other: LlvmValue) -> LlvmValue:
        """Emit this absolute value with the sign of another."""
        return self.call("llvm.copysign", other)

    @property
    def bits(self) -> LlvmValue:
        """The same bits as an integer."""
        integer = ir.IntType(32 if element(self.v.type) == FLOAT else 64)
        return LlvmValue(self.b, self.b.bitcast(self.v, like(self.v.type, integer)))

    def as_float(self) -> LlvmValue:
        """Reinterpret the bits as a float of the same width."""
        scalar = FLOAT if element(self.v.type).width == 32 else DOUBLE
        return LlvmValue(self.b, self.b.bitcast(self.v, like(self.v.type, scalar)))

    def to_integer(self) -> LlvmValue:
        """Convert a float without a fraction to an integer of the same width."""
        integer = ir.IntType(32 if element(self.v.type) == FLOAT else 64)
        kind = like(self.v.type, integer)
        if target().has("v"):  # nothing is rounded; QEMU 7.2 stops at vfcvt.rtz of a conversion
            name = f"llvm.lrint.{suffix(kind)}.{suffix(self.v.type)}"
            return LlvmValue(self.b, call_intrinsic(self.b, name, kind, self.v))
        return LlvmValue(self.b, self.b.fptosi(self.v, kind))

    def real(self) -> LlvmValue:
        """Convert an integer to a float of the same width."""
        scalar = FLOAT if element(self.v.type).width == 32 else DOUBLE
        return LlvmValue(self.b, self.b.sitofp(self.v, like(self.v.type, scalar)))

    def wide(self) -> LlvmValue:
        """Convert float32 to float64."""
        return LlvmValue(self.b, self.b.fpext(self.v, like(self.v.type, DOUBLE)))

    def narrow(self) -> LlvmValue:
        """Convert float64 to float32."""
        return LlvmValue(self.b, self.b.fptrunc(self.v, like(self.v.type, FLOAT)))


def polynomial(x: LlvmValue, *factors: float) -> LlvmValue:
    """Evaluate a polynomial by Horner's rule, the highest power first."""
    total = LlvmValue(x.b, x.of(factors[0]))
    for f in factors[1:]:
        total = total * x + f
    return total


@contextmanager
def compiling_for(target: InstructionSet) -> Iterator[None]:
    """Set the target for the code emitted inside of the context."""
    before = _now.set(target)
    try:
        yield
    finally:
        _now.reset(before)


def target() -> InstructionSet:
    """Return the target of the code being emitted."""
    return _now.get()
