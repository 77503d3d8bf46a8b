"""Machine words for compiled code: plain and atomic memory, calls of an address, cycle counter.

Every address is an int64. Each function is one or two LLVM instructions; none touches a Python
object, so code made of them runs without the GIL, and without Numba once it is machine code.
"""

from __future__ import annotations

import platform
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic as typed_intrinsic

intrinsic: Any = typed_intrinsic  # Numba's own type asks callers for the compile-time context
I64 = ir.IntType(64)
I32 = ir.IntType(32)
I8 = ir.IntType(8)
ARM = platform.machine().lower() in ("arm64", "aarch64")
llvm.initialize_native_asmparser()  # for the one inline instruction of ARM


def _pointer(builder: Any, address: Any, width: Any = I64) -> Any:
    return builder.inttoptr(address, width.as_pointer())


def _call(builder: Any, address: Any, result: Any, args: Any) -> Any:
    signature = ir.FunctionType(result, [a.type for a in args])
    return builder.call(builder.inttoptr(address, signature.as_pointer()), args)


@intrinsic
def load(context: Any, address: Any) -> Any:
    """Load the word at an address."""
    return types.int64(types.int64), lambda cx, b, sig, a: b.load(_pointer(b, a[0]), align=8)


@intrinsic
def load_byte(context: Any, address: Any) -> Any:
    """Load the byte at an address, as a number."""

    def code(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        return b.zext(b.load(_pointer(b, a[0], I8), align=1), I64)

    return types.int64(types.int64), code


@intrinsic
def store(context: Any, address: Any, value: Any) -> Any:
    """Write a word to an address."""

    def code(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        b.store(a[1], _pointer(b, a[0]), align=8)
        return cx.get_dummy_value()

    return types.void(types.int64, types.int64), code


@intrinsic
def store_byte(context: Any, address: Any, value: Any) -> Any:
    """Write the low byte of a number to an address."""

    def code(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        b.store(b.trunc(a[1], I8), _pointer(b, a[0], I8), align=1)
        return cx.get_dummy_value()

    return types.void(types.int64, types.int64), code


@intrinsic
def load_acquire(context: Any, address: Any) -> Any:
    """Load the word at an address; its writer's earlier writes are visible afterwards."""

    def code(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        return b.load_atomic(_pointer(b, a[0]), "seq_cst", 8)

    return types.int64(types.int64), code


@intrinsic
def exchange(context: Any, address: Any, value: Any) -> Any:
    """Write a word atomically, sequentially consistent, and return the previous one."""

    def code(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        return b.atomic_rmw("xchg", _pointer(b, a[0]), a[1], "seq_cst")

    return types.int64(types.int64, types.int64), code


@intrinsic
def add(context: Any, address: Any, amount: Any) -> Any:
    """Add to the word at an address atomically, and return the previous word."""

    def code(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        return b.atomic_rmw("add", _pointer(b, a[0]), a[1], "seq_cst")

    return types.int64(types.int64, types.int64), code


@intrinsic
def swap_if(context: Any, address: Any, old: Any, new: Any) -> Any:
    """Write a word if `old` is there and return 1; otherwise return 0 (compare and swap)."""

    def code(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        exchanged = b.cmpxchg(_pointer(b, a[0]), a[1], a[2], "seq_cst", "seq_cst")
        return b.zext(b.extract_value(exchanged, 1), I64)

    return types.int64(types.int64, types.int64, types.int64), code


@intrinsic
def pause(context: Any) -> Any:
    """Tell the core that this is a spin loop."""

    def code(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        name, args = ("llvm.aarch64.hint", [I32(1)]) if ARM else ("llvm.x86.sse2.pause", [])
        kind = ir.FunctionType(ir.VoidType(), [x.type for x in args])
        b.call(b.module.declare_intrinsic(name, (), kind), args)
        return cx.get_dummy_value()

    return types.void(), code


@intrinsic
def cycles(context: Any) -> Any:
    """Read the counter that ticks at one rate on every core: TSC, or ARM's virtual counter."""

    def code(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        return _counter(b)

    return types.int64(), code


@intrinsic
def ordered_cycles(context: Any) -> Any:
    """Read `cycles` after all earlier loads.

    A core that runs ahead would read the counter while it still waits for another unit's signal. So
    no brick starts before the ends that it awaited.
    """

    def code(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        fence = ir.FunctionType(ir.VoidType(), [])
        if ARM:
            b.call(ir.InlineAsm(fence, "isb", "~{memory}", side_effect=True), [])
        else:
            b.call(b.module.declare_intrinsic("llvm.x86.sse2.lfence", (), fence), [])
        return _counter(b)

    return types.int64(), code


@intrinsic
def call_kernel(context: Any, address: Any, first: Any, last: Any, args: Any) -> Any:
    """Call `void kernel(int64 first, int64 last, int64* args)`."""

    def code(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        _call(b, a[0], ir.VoidType(), a[1:])
        return cx.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), code


@intrinsic
def call_yield(context: Any, address: Any) -> Any:
    """Call `int sched_yield(void)`."""

    def code(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        _call(b, a[0], I32, [])
        return cx.get_dummy_value()

    return types.void(types.int64), code


@intrinsic
def call_sleep(context: Any, address: Any, microseconds: Any) -> Any:
    """Call `int usleep(useconds_t)`."""

    def code(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        _call(b, a[0], I32, [b.trunc(a[1], I32)])
        return cx.get_dummy_value()

    return types.void(types.int64, types.int64), code


@intrinsic
def call_clock(context: Any, address: Any, clock: Any, where: Any) -> Any:
    """Call `int clock_gettime(clockid_t, struct timespec*)`."""

    def code(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        _call(b, a[0], I32, [b.trunc(a[1], I32), a[2]])
        return cx.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), code


@intrinsic
def call_futex(
    context: Any, address: Any, number: Any, word: Any, op: Any, value: Any, timeout: Any
) -> Any:
    """Call `long syscall(SYS_futex, word, op, value, timeout)` of Linux."""

    def code(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        _call(b, a[0], I64, a[1:])
        return cx.get_dummy_value()

    return types.void(*[types.int64] * 6), code


@intrinsic
def call_move(context: Any, address: Any, target: Any, source: Any, count: Any) -> Any:
    """Call `void* memmove(target, source, count)`."""

    def code(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        _call(b, a[0], I64, a[1:])
        return cx.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), code


def _counter(b: Any) -> Any:
    kind = ir.FunctionType(I64, [])
    if ARM:
        return b.call(ir.InlineAsm(kind, "mrs $0, cntvct_el0", "=r", side_effect=True), [])
    return b.call(b.module.declare_intrinsic("llvm.readcyclecounter", (), kind), [])
