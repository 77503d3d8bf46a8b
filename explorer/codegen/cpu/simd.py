"""What generated kernels call: addresses, selects, sums in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

F32, I32, I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
WIDE = '"prefer-vector-width"="512"'
MOST_COPIES = 8  # of the code of one function in a kernel; chosen


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
        set.add(b.function.attributes, WIDE)
        return cx.get_dummy_value()

    return types.void(), emit


@intrinsic
def fence(context):
    """What was stored non-temporally is seen by other threads from here on."""

    def emit(cx, b, sig, a):
        b.fence("seq_cst")
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
def sdiv_down(context, x, y):
    """x // y, rounded down, where y is more than 0."""

    def emit(cx, b, sig, a):
        quotient, rest = b.sdiv(a[0], a[1]), b.srem(a[0], a[1])
        zero = rest.type(0)
        return b.sub(quotient, b.zext(b.icmp_signed("<", rest, zero), rest.type))

    return types.intp(types.intp, types.intp), emit


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


def of_integers(count: int, write: Callable[[Any, list[Any]], object]) -> Any:
    """A function of a tuple of `count` integers; `write` makes its code where a builder stands. A
    kernel that calls it often calls a function: a thousand rows stacked as code of their own took
    LLVM 32 of the 39 s in which an LSTM of a thousand steps was compiled.
    """
    uses: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # of each module
    names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def function(caller: Any) -> str:
        kind = ir.FunctionType(ir.VoidType(), [I64] * count)
        found = ir.Function(caller.module, kind, caller.module.get_unique_name("often"))
        found.linkage = "internal"
        found.attributes.add("noinline")
        if WIDE in caller.attributes:
            set.add(found.attributes, WIDE)
        b = ir.IRBuilder(found.append_basic_block("entry"))
        write(b, list(found.args))
        b.ret_void()
        return str(found.name)

    @intrinsic
    def run(context, numbers):
        def emit(cx, b, sig, a):
            given = [b.extract_value(a[0], n) for n in range(count)]
            uses[b.module] = uses.get(b.module, 0) + 1
            if uses[b.module] <= MOST_COPIES:
                write(b, given)
            else:
                if b.module not in names:
                    names[b.module] = function(b.function)
                b.call(b.module.get_global(names[b.module]), given)
            return cx.get_dummy_value()

        return types.void(types.UniTuple(types.intp, count)), emit

    return run
