"""Scalar functions of generated kernels that are no single operator of Python, for every dtype."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

F, D, I, I32, B = np.float32, np.float64, np.int64, np.int32, np.bool_


def _unary(name: str) -> Any:
    @intrinsic
    def call(context, x):
        def emit(cx, b, sig, a):
            return b.call(b.module.declare_intrinsic(name, [a[0].type]), [a[0]])

        return x(x), emit

    return call


floor_, ceil_, round_ = _unary("llvm.floor"), _unary("llvm.ceil"), _unary("llvm.nearbyint")
sqrt_ = _unary("llvm.sqrt")


@intrinsic
def abs_(context, x):
    """The absolute value."""

    def emit(cx, b, sig, a):
        if isinstance(x, types.Float):
            return b.call(b.module.declare_intrinsic("llvm.fabs", [a[0].type]), [a[0]])
        zero = ir.Constant(a[0].type, 0)
        return b.select(b.icmp_signed("<", a[0], zero), b.sub(zero, a[0]), a[0])

    return x(x), emit


@intrinsic
def truncated_div(context, x, y):
    """Integer division towards zero; 0 where the divisor is 0, which hardware would trap on."""

    def emit(cx, b, sig, a):
        zero, one = ir.Constant(a[1].type, 0), ir.Constant(a[1].type, 1)
        safe = b.select(b.icmp_signed("==", a[1], zero), one, a[1])
        q = b.sdiv(a[0], safe) if x.signed else b.udiv(a[0], safe)
        return b.select(b.icmp_signed("==", a[1], zero), zero, q)

    return x(x, x), emit


def _plain(f: Any) -> Any:
    return njit(error_model="numpy", forceinline=True)(f)


@_plain
def floor_div(x, y):
    """Division rounded down."""
    return x // y


@_plain
def floor_mod(x, y):
    """The remainder with the divisor's sign."""
    return x % y


@_plain
def power(x, y):
    """x to the power y."""
    return x**y


@_plain
def sin_(x):
    """sin."""
    return math.sin(x)


@_plain
def cos_(x):
    """cos."""
    return math.cos(x)


@_plain
def log_(x):
    """The natural logarithm: -inf at 0, NaN below."""
    return np.log(x)


@_plain
def exp_(x):
    """exp."""
    return math.exp(x)


@_plain
def tanh_(x):
    """tanh."""
    return math.tanh(x)


@_plain
def erf_(x):
    """erf."""
    return math.erf(x)


@_plain
def sigmoid_(x):
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + math.exp(-x))


@_plain
def sign_(x):
    """-1, 0, 1, or NaN."""
    return np.sign(x)


@_plain
def isnan_(x):
    """Whether NaN."""
    return x != x


@_plain
def isinf_(x):
    """Whether an infinity."""
    return np.isinf(x)
