"""`explorer.np.fft`: the array API's Fourier transforms, each dim's a DFT operator.

Complex arrays are pairs of real ones. A real signal is transformed as a real signal.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy

from explorer.errors import BadOption, DtypeError
from explorer.frontends.python.arrays.creation import arange, roll, stack
from explorer.frontends.python.arrays.elementwise import conj, divide, multiply, sqrt, subtract
from explorer.frontends.python.arrays.shaping import axes_of, axis_of, expand_dims, refuse
from explorer.frontends.python.arrays.ufuncs import less, where
from explorer.frontends.python.tracing.dims import plain_dim
from explorer.frontends.python.tracing.emit import converted, emit, traced
from explorer.frontends.python.tracing.frames import calling_line
from explorer.frontends.python.tracing.operation import operation
from explorer.frontends.python.tracing.operators import ComplexArray, is_complex

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

of_numpy = numpy.fft
OPPOSITE = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _transform(
    x: Any, n: Any, axis: int, norm: str | None, *, inverse: bool = False, onesided: bool = False
) -> Any:
    """Return the DFT along a dim that is truncated or zero-padded to `n` elements."""
    parts = [_as_floats(p) for p in ((x.real, x.imag) if is_complex(x) else (x,))]
    if len(parts) == 2 and onesided and not inverse:
        _refuse_complex(x)
    at = axis_of(axis, parts[0].ndim)
    extent = parts[0].shape[at]
    n = n if n is not None else 2 * (extent - 1) if inverse and onesided else extent
    length = plain_dim(n)
    if length is None or (isinstance(length, int) and length < 1):
        refuse(f"a Fourier transform needs a positive number of points, not {n!r}")
    signal = stack(parts, -1) if len(parts) == 2 else expand_dims(parts[0], -1)
    spectrum = emit(
        "DFT", signal, axis=at, dft_length=(length,), inverse=int(inverse), onesided=int(onesided)
    )
    spectrum = _normalize(spectrum, n, norm, inverse)
    if inverse and onesided:
        real = spectrum[..., 0]
        return converted(real, "float16") if _dtype(x) == numpy.float16 else real
    return ComplexArray(spectrum[..., 0], spectrum[..., 1])


def _as_floats(x: Any) -> Any:
    """Return the signal in float32 or float64, as NumPy transforms it."""
    signal = traced(x)
    least = numpy.float32 if signal.dtype.kind == "f" else numpy.float64
    return converted(signal, numpy.result_type(signal.dtype, least))


def _dtype(x: Any) -> Any:
    return (x.real if is_complex(x) else traced(x)).dtype


def _refuse_complex(x: Any) -> NoReturn:
    line = calling_line()
    raise DtypeError(
        f"{line}: half a spectrum is only defined for real signals, and this one is complex "
        f"({line.text})",
        where=line,
        expected="a real array",
        actual=str(x.dtype),
        try_="fft, or the real part",
    )


def _normalize(x: Any, n: Any, norm: str | None, inverse: bool) -> Any:
    """Scale the operator's result, which has norm="backward"."""
    norm = _check_norm(norm)
    if norm == "backward":
        return x
    count = converted(n, x.dtype)
    factor = sqrt(count) if norm == "ortho" else count
    return multiply(x, factor) if inverse else divide(x, factor)


def _check_norm(norm: str | None) -> str:
    mode = "backward" if norm is None else norm
    if mode not in OPPOSITE:
        raise BadOption(
            f"{calling_line()}: a Fourier transform has no norm {norm!r}",
            where=calling_line(),
            expected=", ".join(OPPOSITE),
        )
    return mode


@operation(of_numpy.fft, on_complex="itself")
def fft(x: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Any:
    """Apply NumPy's `fft.fft`."""
    return _transform(x, n, axis, norm)


@operation(of_numpy.ifft, on_complex="itself")
def ifft(x: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Any:
    """Apply NumPy's `fft.ifft`."""
    return _transform(x, n, axis, norm, inverse=True)


@operation(of_numpy.rfft, on_complex="itself")
def rfft(x: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Any:
    """Apply NumPy's `fft.rfft`: the first half of the spectrum of a real signal."""
    return _transform(x, n, axis, norm, onesided=True)


@operation(of_numpy.irfft, on_complex="itself")
def irfft(x: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Any:
    """Apply NumPy's `fft.irfft`: the real signal of half a spectrum, of even length by default."""
    return _transform(x, n, axis, norm, inverse=True, onesided=True)


@operation(of_numpy.hfft, on_complex="itself")
def hfft(x: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Any:
    """Apply NumPy's `fft.hfft`: the real spectrum of half a signal."""
    return irfft(conj(x), n, axis, OPPOSITE[_check_norm(norm)])


@operation(of_numpy.ihfft, on_complex="itself")
def ihfft(x: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Any:
    """Apply NumPy's `fft.ihfft`: half the signal of a real spectrum."""
    return conj(rfft(x, n, axis, OPPOSITE[_check_norm(norm)]))


# Along several dims.


def _transform_dims(x: Any, s: Any, axes: Any) -> list[tuple[Any, int]]:
    """Return the number of points (None: the dim's extent) and the dim of each transform."""
    x = x if is_complex(x) else traced(x)
    if s is None:
        return [(None, axis) for axis in axes_of(axes, x.ndim)]
    axes = range(-len(s), 0) if axes is None else axes
    if len(s) != len(axes):
        refuse(f"s has {len(s)} numbers of points for {len(axes)} axes")
    dims = [axis_of(axis, x.ndim) for axis in axes]
    return [(x.shape[d] if plain_dim(n) == -1 else n, d) for n, d in zip(s, dims, strict=True)]


@operation(of_numpy.fftn, on_complex="itself")
def fftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Apply NumPy's `fft.fftn`."""
    for n, axis in reversed(_transform_dims(x, s, axes)):
        x = fft(x, n, axis, norm)
    return x


@operation(of_numpy.ifftn, on_complex="itself")
def ifftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Apply NumPy's `fft.ifftn`."""
    for n, axis in reversed(_transform_dims(x, s, axes)):
        x = ifft(x, n, axis, norm)
    return x


@operation(of_numpy.rfftn, on_complex="itself")
def rfftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Apply NumPy's `fft.rfftn`: half of the spectrum along the last of the axes."""
    *others, (last, at) = _transform_dims(x, s, axes)
    x = rfft(x, last, at, norm)
    for n, axis in reversed(others):
        x = fft(x, n, axis, norm)
    return x


@operation(of_numpy.irfftn, on_complex="itself")
def irfftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """Apply NumPy's `fft.irfftn`: the real signal of a spectrum halved along the last axis."""
    *others, (last, at) = _transform_dims(x, s, axes)
    for n, axis in others:
        x = ifft(x, n, axis, norm)
    return irfft(x, last, at, norm)


# Frequencies, and their order.


def _with_dtype(of: Any) -> Any:
    """Wrap NumPy's function to accept the standard's `dtype`, which NumPy's lacks."""

    def frequencies(n: Any, d: Any = 1.0, dtype: Any = None, device: Any = None) -> Any:
        return of(n, d, device=device).astype(dtype or "float64")

    return frequencies


@operation(_with_dtype(of_numpy.fftfreq))
def fftfreq(n: Any, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """Apply NumPy's `fft.fftfreq`, in the requested dtype."""
    at, half = arange(n), (n - 1) // 2 + 1
    counts = where(less(at, half), at, subtract(at, n))
    return converted(multiply(counts, divide(1.0, multiply(n, d))), dtype or "float64")


@operation(_with_dtype(of_numpy.rfftfreq))
def rfftfreq(n: Any, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """Apply NumPy's `fft.rfftfreq`, in the requested dtype."""
    counts = arange(n // 2 + 1)
    return converted(multiply(counts, divide(1.0, multiply(n, d))), dtype or "float64")


def _shift_axes(x: Any, axes: Any, sign: int) -> Any:
    x = x if is_complex(x) else traced(x)
    for axis in axes_of(axes, x.ndim):
        x = roll(x, sign * (x.shape[axis] // 2), axis)
    return x


@operation(of_numpy.fftshift, on_complex="itself")
def fftshift(x: Any, axes: Any = None) -> Any:
    """Apply NumPy's `fft.fftshift`: move frequency 0 to the middle."""
    return _shift_axes(x, axes, 1)


@operation(of_numpy.ifftshift, on_complex="itself")
def ifftshift(x: Any, axes: Any = None) -> Any:
    """Apply NumPy's `fft.ifftshift`: move frequency 0 to the front."""
    return _shift_axes(x, axes, -1)
