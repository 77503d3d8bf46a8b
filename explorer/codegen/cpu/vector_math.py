"""The elementary functions as plain arithmetic, under the names that generated source calls.

exp, log, tanh, sigmoid, erf and pow are for one number or a vector. In a loop, LLVM turns them into
vector code. Numba's wheel has no vector math library: a call into libm costs 14 ns an element where
these cost about 0.3. inf, NaN, zeros and subnormals are as in NumPy. Errors are measured by `python
-m tests.codegen.ulp`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from explorer.codegen.cpu.llvm_value import (
    FLOAT,
    LlvmValue,
    call_intrinsic,
    element,
    like,
    polynomial,
    suffix,
    target,
)

INF, NAN = float("inf"), float("nan")
LOG2E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4  # their sum is ln 2; the first has 9 bits
LN2_HIGH_64, LN2_LOW_64 = 6.93147180369123816490e-01, 1.90821492927058770002e-10
I32 = ir.IntType(32)
Factors = tuple[float, ...]
SCALEF = {
    "v16f32": "llvm.x86.avx512.mask.scalef.ps.512",
    "v8f64": "llvm.x86.avx512.mask.scalef.pd.512",
}

ZERO_AT, ZERO_AT_64 = -104.0, -746.0  # exp of it is less than half of the least subnormal number
EXP: Factors = (0.0013814540176807933, 0.00836874510894272, 0.04166839078354784)
EXP += (0.16666520399042528, 0.4999999343212929, 1.0, 1.0)  # Remez, on -ln 2 / 2 .. ln 2 / 2
EXP_64: Factors = tuple(
    1.0 / f for f in (6227020800, 479001600, 39916800, 3628800, 362880, 40320, 5040)
)
EXP_64 += tuple(1.0 / f for f in (720, 120, 24, 6, 2))  # Taylor's, to 1 / 13!


def _single(x: LlvmValue) -> bool:
    return bool(element(x.v.type) == FLOAT)


def scaled(x: LlvmValue, by: LlvmValue) -> LlvmValue:
    """Return `x * 2 ** by` for an integer `by`, rounded once, also if it is subnormal."""
    if target().is_avx512 and suffix(x.v.type) in SCALEF:
        name, exponent = SCALEF[suffix(x.v.type)], ir.Constant(ir.IntType(x.v.type.count), -1)
        product = call_intrinsic(x.b, name, x.v.type, x.v, by.v, x.v, exponent, I32(4))
        return LlvmValue(x.b, product)
    if target().is_avx512:
        power = by.to_integer()
        if not _single(x):
            power = LlvmValue(x.b, x.b.trunc(power.v, like(power.v.type, I32)))
        name = f"llvm.ldexp.{suffix(x.v.type)}.{suffix(power.v.type)}"
        return LlvmValue(x.b, call_intrinsic(x.b, name, x.v.type, x.v, power.v))
    bias, places = (127, 23) if _single(x) else (1023, 52)
    exponent = by.to_integer()
    half = exponent >> 1  # two factors: 2**128 alone would overflow the exponent
    first, second = ((n + bias) << places for n in (half, exponent - half))
    return x * first.as_float() * second.as_float()


def exp(x: LlvmValue) -> LlvmValue:
    """Return e to the power x.

    A result of 0, as for masked scores, is a product with 0. A result that vanishes by rounding
    takes some processors a hundred cycles, like a subnormal one.
    """
    if not _single(x):
        return _exp_64(x)
    z = x.least(ZERO_AT).most(89.0)
    n = (z * LOG2E).nearest
    r = z - n * LN2_HIGH - n * LN2_LOW
    return scaled(x.compare("<=", ZERO_AT).where(0.0, polynomial(r, *EXP)), n)


def _exp_64(x: LlvmValue) -> LlvmValue:
    z = x.least(ZERO_AT_64).most(710.0)
    n = (z * LOG2E).nearest
    r = z - n * LN2_HIGH_64 - n * LN2_LOW_64
    value = polynomial(r, *EXP_64) * (r * r) + r + 1.0
    return scaled(x.compare("<=", ZERO_AT_64).where(0.0, value), n)


def sigmoid(x: LlvmValue) -> LlvmValue:
    """Return 1 / (1 + exp(-x)), without overflow for either sign."""
    small = exp(-x.size)
    return (x >= 0.0).where(1.0, small) / (small + 1.0)


TANH: Factors = (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11)
TANH += (5.12229709037114e-08, 1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03)
TANH_BELOW: Factors = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03)
TANH_BELOW += (4.89352518554385e-03,)  # Eigen and XLA, on -9 .. 9
TANH_64: Factors = (
    -9.64399179425052238628e-1,
    -9.92877231001918586564e1,
    -1.61468768441708447952e3,
)
TANH_64_BELOW: Factors = (
    1.0,
    1.12811678491632931402e2,
    2.23548839060100448583e3,
    4.84406305325125486048e3,
)


def tanh(x: LlvmValue) -> LlvmValue:
    """Return tanh, never beyond 1; in float64 a quotient below 0.625, by exp above."""
    if _single(x):
        return _odd_quotient(x, 9.0, TANH, TANH_BELOW)
    z, size = x * x, x.size
    near = polynomial(z, *TANH_64) / polynomial(z, *TANH_64_BELOW) * z * x + x
    far = 1.0 - 2.0 / (exp(size + size) + 1.0)
    return (size < 0.625).where(near, far).with_sign(x)


ERF: Factors = (
    -2.72614225801306e-10,
    2.77068142495902e-08,
    -2.10102402082508e-06,
    -5.69250639462346e-05,
)
ERF += (-7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02)
ERF_BELOW: Factors = (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03)
ERF_BELOW += (-7.37332916720468e-03, -1.42647390514189e-02)  # Eigen and XLA, on -4 .. 4
ERF_64: Factors = (9.60497373987051638749, 9.00260197203842689217e1, 2.23200534594684319226e3)
ERF_64 += (7.00332514112805075473e3, 5.55923013010394962768e4)
ERF_64_BELOW: Factors = (
    1.0,
    3.35617141647503099647e1,
    5.21357949780152679795e2,
    4.59432382970980127987e3,
)
ERF_64_BELOW += (2.26290000613890934246e4, 4.92673942608635921086e4)
ERFC_64: Factors = (2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687)
ERFC_64 += (4.86371970985681366614e1, 1.96520832956077098242e2, 5.26445194995477358631e2)
ERFC_64 += (9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2)
ERFC_64_BELOW: Factors = (
    1.0,
    1.32281951154744992508e1,
    8.67072140885989742329e1,
    3.54937778887819891062e2,
)
ERFC_64_BELOW += (9.75708501743205489753e2, 1.82390916687909736289e3, 2.24633760818710981792e3)
ERFC_64_BELOW += (1.65666309194161350182e3, 5.57535340817727675546e2)  # Cephes, ndtr


def erf(x: LlvmValue) -> LlvmValue:
    """Return the error function, never beyond 1."""
    if not _single(x):
        return _erf_64(x)
    return _odd_quotient(x, 4.0, ERF, ERF_BELOW)


def _odd_quotient(x: LlvmValue, limit: float, above: Factors, below: Factors) -> LlvmValue:
    """Return a rational function of x * x, times x, within a limit; it is clamped to -1 .. 1."""
    c = x.least(-limit).most(limit)
    z = c * c
    return (c * (polynomial(z, *above) / polynomial(z, *below))).least(-1.0).most(1.0)


def _erf_64(x: LlvmValue) -> LlvmValue:
    size = x.size.most(6.0)
    z = x * x
    near = x * polynomial(z, *ERF_64) / polynomial(z, *ERF_64_BELOW)
    complement = exp(-(size * size)) * polynomial(size, *ERFC_64) / polynomial(size, *ERFC_64_BELOW)
    return (size < 1.0).where(near, (1.0 - complement).with_sign(x))


LOG: Factors = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
)
LOG += (-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # Cephes, logf
LOG_64: Factors = (1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01)
LOG_64 += (2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01)
LOG_64 += (6.666666666666735130e-01,)  # fdlibm, e_log.c
ROOT_HALF, ROOT_HALF_64 = 0x3F3504F3, 0x3FE6A09E667F3BCD


def _parts(x: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
    """Return the mantissa from sqrt(1/2) to sqrt(2), and the exponent, of a positive number."""
    low, up, places, root = (
        (1.17549435e-38, 8388608.0, 23, ROOT_HALF)
        if _single(x)
        else (2.2250738585072014e-308, 4503599627370496.0, 52, ROOT_HALF_64)
    )
    tiny = x < low
    shifted = tiny.where(x * up, x).bits - root
    mantissa = ((shifted & ((1 << places) - 1)) + root).as_float()
    return mantissa, (shifted >> places).real() - tiny.where(
        LlvmValue(x.b, x.of(float(places))), 0.0
    )


def log(x: LlvmValue) -> LlvmValue:
    """Return the natural logarithm: -inf at 0, NaN below."""
    mantissa, exponent = _parts(x)
    f = mantissa - 1.0
    y = _log_single(f, exponent) if _single(x) else _log_double(f, exponent)
    y = x.equals(INF).where(INF, y)
    y = x.equals(0.0).where(-INF, y)
    return x.not_at_least(0.0).where(NAN, y)


def _log_single(f: LlvmValue, n: LlvmValue) -> LlvmValue:
    z = f * f
    y = polynomial(f, *LOG) * z * f + n * LN2_LOW - z * 0.5
    return f + y + n * LN2_HIGH


def _log_double(f: LlvmValue, n: LlvmValue) -> LlvmValue:
    s = f / (f + 2.0)
    z, half = s * s, f * f * 0.5
    tail = polynomial(z, *LOG_64) * z
    return n * LN2_HIGH_64 - ((half - (s * (half + tail) + n * LN2_LOW_64)) - f)


def power(x: LlvmValue, y: LlvmValue) -> LlvmValue:
    """Return x to the power y; float32 is computed in float64 and rounded once."""
    a, by = x.size.wide(), y.wide()
    z = exp(log(a) * by).narrow()
    is_integer = y.nearest.equals(y)
    half = y * 0.5
    odd = is_integer & (half.nearest.equals(half).where(LlvmValue(y.b, y.of(0.0)), 1.0) > 0.5)
    z = odd.where(z.with_sign(x), z)
    finite = x.size < INF
    z = ((x < 0.0) & finite & (is_integer ^ True) & (y.size < INF)).where(NAN, z)
    z = (x.equals(1.0) | y.equals(0.0)).where(1.0, z)
    return (x.size.equals(1.0) & y.size.equals(INF)).where(1.0, z)


ELEMENTARY: dict[str, Callable[[LlvmValue], LlvmValue]] = {
    "exp": exp,
    "log": log,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "erf": erf,
}
"""Our functions of one float, by the names of their records: what is here has a form on scalars and
one on vectors.
"""


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


# In lines of their own: what a source calls is found in this text (object_code.py).
exp32, exp64 = _both("exp")
log32, log64 = _both("log")
tanh32, tanh64 = _both("tanh")
sigmoid32, sigmoid64 = _both("sigmoid")
erf32, erf64 = _both("erf")

__all__ = [f"{f}{bits}" for f in ("exp", "log", "tanh", "sigmoid", "erf") for bits in (32, 64)]
__all__ += ["power32"]
