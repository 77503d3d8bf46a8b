"""Intrinsics of generated kernels: addresses, selects, sums in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from explorer.codegen.cpu.llvm_value import prefetch_line

F32, I32, I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
WIDE = '"prefer-vector-width"="512"'
MOST_COPIES = 8  # inlined copies of a function in a kernel; chosen


@intrinsic
def argument(context, args, index):
    """Load the int64 at `args[index]`: an address or a dim."""

    def emit(cx, b, sig, a):
        return b.load(b.gep(b.inttoptr(a[0], I64.as_pointer()), [a[1]]))

    return types.intp(types.uintp, types.intp), emit


@intrinsic
def wide(context):
    """Let LLVM use whole 512-bit registers in this function; its default is half of them."""

    def emit(cx, b, sig, a):
        set.add(b.function.attributes, WIDE)
        return cx.get_dummy_value()

    return types.void(), emit


@intrinsic
def fence(context):
    """Make earlier non-temporal stores visible to other threads."""

    def emit(cx, b, sig, a):
        b.fence("seq_cst")
        return cx.get_dummy_value()

    return types.void(), emit


@intrinsic
def touch(context, address):
    """Prefetch the line at an address, which may be invalid."""

    def emit(cx, b, sig, a):
        prefetch_line(b, a[0])
        return cx.get_dummy_value()

    return types.void(types.intp), emit


def _unsigned(operation: str) -> Any:
    """Return the intrinsic of an unsigned integer operation."""

    @intrinsic
    def divide(context, x, y):
        def emit(cx, b, sig, a):
            return getattr(b, operation)(a[0], a[1])

        return types.intp(types.intp, types.intp), emit

    return divide


udiv, urem = _unsigned("udiv"), _unsigned("urem")


@intrinsic
def sdiv_down(context, x, y):
    """Return x // y, rounded down, for y > 0."""

    def emit(cx, b, sig, a):
        quotient, remainder = b.sdiv(a[0], a[1]), b.srem(a[0], a[1])
        zero = remainder.type(0)
        return b.sub(quotient, b.zext(b.icmp_signed("<", remainder, zero), remainder.type))

    return types.intp(types.intp, types.intp), emit


@intrinsic
def select(context, condition, x, y):
    """Return `x` if the condition is true, else `y`, without a branch."""

    def emit(cx, b, sig, a):
        return b.select(a[0], a[1], a[2])

    return x(types.boolean, x, x), emit


def _has_sign(kind: Any) -> bool:
    return bool(getattr(kind, "signed", False))  # a bool has none


@intrinsic
def maximum(context, x, y):
    """Return the larger one; NaN if either is (NumPy's maximum)."""

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
    """Return the smaller one; NaN if either is (NumPy's minimum)."""

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
    """Return the intrinsic that bounds a value on one side."""

    @intrinsic
    def bounded(context, x, limit):
        """Compare with a limit in one instruction; NaN in the value stays if the limit is none."""

        def emit(cx, b, sig, a):
            return b.select(b.fcmp_ordered(predicate, a[1], a[0]), a[1], a[0])

        return x(x, x), emit

    return bounded


at_least, at_most = _against(">"), _against("<")


@intrinsic
def add_any_order(context, x, y):
    """Add in any order, so that a loop over the sum can be vectorised."""

    def emit(cx, b, sig, a):
        if isinstance(x, types.Float):
            return b.fadd(a[0], a[1], flags=["reassoc", "nsz", "contract"])
        return b.add(a[0], a[1])

    return x(x, x), emit


@intrinsic
def mul_any_order(context, x, y):
    """Multiply in any order."""

    def emit(cx, b, sig, a):
        if isinstance(x, types.Float):
            return b.fmul(a[0], a[1], flags=["reassoc", "nsz"])
        return b.mul(a[0], a[1])

    return x(x, x), emit


def of_integers(
    count: int, write: Callable[[Any, list[Any]], object], most_copies: int = MOST_COPIES
) -> Any:
    """Return a function of a tuple of `count` integers; `write` emits its code at a builder.

    A kernel that uses it often calls an out-of-line function. A thousand inlined copies took LLVM
    32 of the 39 s in which an LSTM of a thousand steps was compiled.
    """
    uses: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # by module
    names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def function(caller: Any) -> str:
        kind = ir.FunctionType(ir.VoidType(), [I64] * count)
        outlined = ir.Function(caller.module, kind, caller.module.get_unique_name("often"))
        outlined.linkage = "internal"
        outlined.attributes.add("noinline")
        if WIDE in caller.attributes:
            set.add(outlined.attributes, WIDE)
        b = ir.IRBuilder(outlined.append_basic_block("entry"))
        write(b, list(outlined.args))
        b.ret_void()
        return str(outlined.name)

    @intrinsic
    def run(context, numbers):
        def emit(cx, b, sig, a):
            values = [b.extract_value(a[0], n) for n in range(count)]
            uses[b.module] = uses.get(b.module, 0) + 1
            if uses[b.module] <= most_copies:
                write(b, values)
            else:
                if b.module not in names:
                    names[b.module] = function(b.function)
                b.call(b.module.get_global(names[b.module]), values)
            return cx.get_dummy_value()

        return types.void(types.UniTuple(types.intp, count)), emit

    return run
