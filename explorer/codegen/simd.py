"""What generated kernels call: addresses, selects, sums in any order, a transposing copy."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

F32, I32, I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)


@intrinsic
def argument(context, args, index):
    """The int64 at `args[index]`: an address or a dim."""

    def emit(cx, b, sig, a):
        return b.load(b.gep(b.inttoptr(a[0], I64.as_pointer()), [a[1]]))

    return types.intp(types.uintp, types.intp), emit


@intrinsic
def wide(context):
    """Lets LLVM use whole 512-bit registers in the loops of this function; it prefers half of them
    by default.
    """

    def emit(cx, b, sig, a):
        set.add(b.function.attributes, '"prefer-vector-width"="512"')
        return cx.get_dummy_value()

    return types.void(), emit


def _unsigned(operation: str) -> Any:
    @intrinsic
    def divide(context, x, y):
        def emit(cx, b, sig, a):
            return getattr(b, operation)(a[0], a[1])

        return types.intp(types.intp, types.intp), emit

    return divide


udiv, urem = _unsigned("udiv"), _unsigned("urem")


@intrinsic
def select(context, condition, x, y):
    """`x` where the condition holds, else `y`, without a branch."""

    def emit(cx, b, sig, a):
        return b.select(a[0], a[1], a[2])

    return x(types.boolean, x, x), emit


def _has_sign(kind: Any) -> bool:
    return bool(getattr(kind, "signed", False))  # a bool has none


@intrinsic
def maximum(context, x, y):
    """The larger one; NaN where either is (NumPy's maximum)."""

    def emit(cx, b, sig, a):
        if isinstance(x, types.Float):
            f = b.module.declare_intrinsic(
                "llvm.maximum", [a[0].type], ir.FunctionType(a[0].type, [a[0].type] * 2)
            )
            return b.call(f, [a[0], a[1]])
        less = b.icmp_signed if _has_sign(x) else b.icmp_unsigned
        return b.select(less("<", a[0], a[1]), a[1], a[0])

    return x(x, x), emit


@intrinsic
def minimum(context, x, y):
    """The smaller one; NaN where either is (NumPy's minimum)."""

    def emit(cx, b, sig, a):
        if isinstance(x, types.Float):
            f = b.module.declare_intrinsic(
                "llvm.minimum", [a[0].type], ir.FunctionType(a[0].type, [a[0].type] * 2)
            )
            return b.call(f, [a[0], a[1]])
        less = b.icmp_signed if _has_sign(x) else b.icmp_unsigned
        return b.select(less("<", a[0], a[1]), a[0], a[1])

    return x(x, x), emit


def _against(predicate: str) -> Any:
    @intrinsic
    def bounded(context, x, limit):
        """One instruction where the limit is a number and no NaN: NaN in the value stays."""

        def emit(cx, b, sig, a):
            return b.select(b.fcmp_ordered(predicate, a[1], a[0]), a[1], a[0])

        return x(x, x), emit

    return bounded


at_least, at_most = _against(">"), _against("<")


@intrinsic
def add_any_order(context, x, y):
    """A sum that may be reordered, so that a loop over it can use vectors."""

    def emit(cx, b, sig, a):
        if isinstance(x, types.Float):
            return b.fadd(a[0], a[1], flags=["reassoc", "nsz", "contract"])
        return b.add(a[0], a[1])

    return x(x, x), emit


@intrinsic
def mul_any_order(context, x, y):
    """A product that may be reordered."""

    def emit(cx, b, sig, a):
        if isinstance(x, types.Float):
            return b.fmul(a[0], a[1], flags=["reassoc", "nsz"])
        return b.mul(a[0], a[1])

    return x(x, x), emit


@intrinsic
def transpose16(context, source, source_step, target, target_step):
    """target[c * target_step + r] = source[r * source_step + c] for a block of 16 x 16 float32, in
    registers.
    """

    def emit(cx, b, sig, a):
        vec, n = ir.VectorType(F32, 16), 16
        src, dst = b.inttoptr(a[0], F32.as_pointer()), b.inttoptr(a[2], F32.as_pointer())
        rows = [
            b.load(b.bitcast(b.gep(src, [b.mul(a[1], I64(r))]), vec.as_pointer()), align=4)
            for r in range(n)
        ]
        for d in (8, 4, 2, 1):
            picks = (
                [n + c - d if c & d else c for c in range(n)],
                [n + c if c & d else c + d for c in range(n)],
            )
            low, high = (ir.Constant(ir.VectorType(I32, n), p) for p in picks)
            rows = [
                b.shuffle_vector(rows[r - d], rows[r], high)
                if r & d
                else b.shuffle_vector(rows[r], rows[r + d], low)
                for r in range(n)
            ]
        for c in range(n):
            b.store(
                rows[c], b.bitcast(b.gep(dst, [b.mul(a[3], I64(c))]), vec.as_pointer()), align=4
            )
        return cx.get_dummy_value()

    return types.void(*[types.intp] * 4), emit
