"""exp, tanh, sigmoid and erf in float32 as plain arithmetic that LLVM turns into vector code; inf
and NaN as in NumPy.

Numba's wheel has no vector math library: a call into libm costs 14 ns an element where this costs
about 0.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from explorer.codegen.simd import at_least, at_most, select

F = np.float32


@intrinsic
def _bits(context, value):
    return types.float32(types.int32), lambda cx, b, sig, a: b.bitcast(a[0], ir.FloatType())


@intrinsic
def _nearest(context, value):
    def emit(cx, b, sig, a):
        return b.call(b.module.declare_intrinsic("llvm.nearbyint", [ir.FloatType()]), [a[0]])

    return types.float32(types.float32), emit


def _math(f: Any) -> Any:
    """Own flags: `contract` only, so that a caller's reassociation cannot break the range
    reduction.
    """
    return njit(fastmath={"contract", "nsz", "arcp"}, error_model="numpy", forceinline=True)(f)


LOG2E, LN2_HI, LN2_LO = F(1.4426950408889634), F(0.693359375), F(-2.12194440e-4)
C0, C1, C2 = F(1.9875691500e-4), F(1.3981999507e-3), F(8.3334519073e-3)
C3, C4, C5 = F(4.1665795894e-2), F(1.6666665459e-1), F(5.0000001201e-1)
ZERO, HALF, ONE, TWO, FOUR = F(0), F(0.5), F(1), F(2), F(4)
LOW, HIGH, INF = F(-87.336544), F(88.722839), F(np.inf)
TOP = F(88.02)


@_math
def exp32(x):
    """exp, relative error about 1e-7 (2 ulp); 0 below -87.3 (subnormals are flushed), inf above
    88.7.
    """
    z = at_most(at_least(x, LOW), HIGH)
    n = _nearest(z * LOG2E)
    r = z - n * LN2_HI - n * LN2_LO
    p = ((((C0 * r + C1) * r + C2) * r + C3) * r + C4) * r + C5
    half = np.int32(n) >> np.int32(1)  # two factors: 2**128 alone would overflow the exponent
    scale = _bits((half + np.int32(127)) << np.int32(23))
    rest = _bits((np.int32(n) - half + np.int32(127)) << np.int32(23))
    y = (p * r * r + r + ONE) * scale * rest
    return select(x < LOW, ZERO, select(x > HIGH, INF, y))


@_math
def sigmoid32(x):
    """1 / (1 + exp(-x))."""
    return ONE / (ONE + exp32(-x))


T1, T2, T3 = F(-5.70498872745e-3), F(2.06390887954e-2), F(-5.37397155531e-2)
T4, T5, SMALL = F(1.33314422036e-1), F(-3.33332819422e-1), F(0.625)


@_math
def tanh32(x):
    """tanh: a polynomial below 0.625, by exp above."""
    z = x * x
    near = ((((T1 * z + T2) * z + T3) * z + T4) * z + T5) * z * x + x
    a = abs(x)
    far = ONE - TWO / (exp32(a + a) + ONE)
    return select(a < SMALL, near, select(x < ZERO, -far, far))


A1, A3, A5 = F(-1.60960333262415e-02), F(-2.95459980854025e-03), F(-7.34990630326855e-04)
A7, A9, A11 = F(-5.69250639462346e-05), F(-2.10102402082508e-06), F(2.77068142495902e-08)
A13 = F(-2.72614225801306e-10)
B0, B2, B4 = F(-1.42647390514189e-02), F(-7.37332916720468e-03), F(-1.68282697438203e-03)
B6, B8 = F(-2.13374055278905e-04), F(-1.45660718464996e-05)


@_math
def erf32(x):
    """erf: a rational approximation on -4 .. 4 (the one of Eigen and XLA), 1 outside."""
    c = at_most(at_least(x, -FOUR), FOUR)
    z = c * c
    p = c * ((((((A13 * z + A11) * z + A9) * z + A7) * z + A5) * z + A3) * z + A1)
    return p / ((((B8 * z + B6) * z + B4) * z + B2) * z + B0)
