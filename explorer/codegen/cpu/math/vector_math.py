"""The elementary functions under the names that generated source calls.

In a loop, LLVM turns them into vector code. Numba's wheel has no vector math library: a call into
libm costs 14 ns an element where these cost about 0.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from explorer.codegen.cpu.math.elementary import ELEMENTARY, power
from explorer.codegen.cpu.math.llvm_value import LlvmValue


def _of_type(function: Callable[[LlvmValue], LlvmValue], number: Any) -> Any:
    @intrinsic
    def call(context, x):
        return number(number), lambda cx, b, sig, a: function(LlvmValue(b, a[0])).v

    return call


@intrinsic
def power32(context, x, y):
    """Return x to the power y."""

    def emit(cx, b, sig, a):
        return power(LlvmValue(b, a[0]), LlvmValue(b, a[1])).v

    return types.float32(types.float32, types.float32), emit


def _both(name: str) -> tuple[Any, Any]:
    return _of_type(ELEMENTARY[name], types.float32), _of_type(ELEMENTARY[name], types.float64)


# In lines of their own: what a source calls is found in this text (object/source_digest.py).
exp32, exp64 = _both("exp")
log32, log64 = _both("log")
tanh32, tanh64 = _both("tanh")
sigmoid32, sigmoid64 = _both("sigmoid")
erf32, erf64 = _both("erf")

__all__ = [f"{f}{bits}" for f in ("exp", "log", "tanh", "sigmoid", "erf") for bits in (32, 64)]
__all__ += ["power32"]
