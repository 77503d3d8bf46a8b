"""The elementary functions under the names that generated source calls; in a loop, LLVM turns them
into vector code.

Numba's wheel has no vector math library: a call into libm costs 14 ns an element where these cost
about 0.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from explorer.codegen.cpu.math.elementary import erf, exp, log, power, sigmoid, tanh
from explorer.codegen.cpu.math.llvm_value import LlvmValue

__all__ = [f"{f}{bits}" for f in ("exp", "log", "tanh", "sigmoid", "erf") for bits in (32, 64)]
__all__ += ["power32"]


def _one(function: Callable[[LlvmValue], LlvmValue], number: Any) -> Any:
    @intrinsic
    def call(context, x):
        return number(number), lambda cx, b, sig, a: function(LlvmValue(b, a[0])).v

    return call


@intrinsic
def power32(context, x, y):
    """x to the power y."""

    def emit(cx, b, sig, a):
        return power(LlvmValue(b, a[0]), LlvmValue(b, a[1])).v

    return types.float32(types.float32, types.float32), emit


exp32, log32, tanh32 = (_one(f, types.float32) for f in (exp, log, tanh))
sigmoid32, erf32 = (_one(f, types.float32) for f in (sigmoid, erf))
exp64, log64, tanh64 = (_one(f, types.float64) for f in (exp, log, tanh))
sigmoid64, erf64 = (_one(f, types.float64) for f in (sigmoid, erf))
