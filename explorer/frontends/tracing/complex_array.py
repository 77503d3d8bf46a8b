"""Complex values of a trace as pairs of real arrays; programs have real values only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.frontends.tracing.operators import ArrayOperators

PART = {"complex64": "float32", "complex128": "float64"}  # the dtype of both parts
COMPLEX_DTYPE = {part: dtype for dtype, part in PART.items()}


@dataclass(frozen=True, slots=True, eq=False)
class ComplexArray(ArrayOperators):
    """A complex array: two real arrays of the same shape and dtype."""

    real: Any
    imag: Any

    def __repr__(self) -> str:
        """Return the text of both parts."""
        return f"<{self.real!r} + 1j * {self.imag!r}>"

    @property
    def shape(self) -> tuple[Any, ...]:
        """The dims: integers, and `SymbolicDim`s where the extent is symbolic."""
        return tuple(self.real.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        return self.real.size

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return int(self.real.ndim)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The dtype, complex64 or complex128."""
        return np.dtype(COMPLEX_DTYPE.get(self.real.dtype.name, "complex128"))

    def __len__(self) -> int:
        """Return the first extent."""
        return len(self.real)

    def __bool__(self) -> bool:
        """Raise TraceError: the value is known only at run time."""
        return bool(self.real)

    def __iter__(self) -> Iterator[ComplexArray]:
        """Iterate over the rows."""
        return map(ComplexArray, self.real, self.imag)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise TraceError: the elements are known only at run time."""
        return self.real.__array__()


def is_complex(value: Any) -> bool:
    """Return True for complex arrays of a trace or of NumPy, and for complex numbers."""
    if isinstance(value, ComplexArray | complex):
        return True
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind == "c"


def has_complex(values: Any) -> bool:
    """Return True if a value, or one in a list or a tuple, is complex."""
    return any(has_complex(v) if isinstance(v, list | tuple) else is_complex(v) for v in values)


def join_parts(real: Any, imag: Any) -> Any:
    """Return the complex array of two real ones: a NumPy array if both are NumPy's."""
    if not all(isinstance(p, np.ndarray | np.generic | float) for p in (real, imag)):
        return ComplexArray(real, imag)
    dtype = COMPLEX_DTYPE.get(np.result_type(real, imag).name, "complex128")
    joined = np.empty(np.shape(real), dtype)
    joined.real, joined.imag = real, imag
    return joined


def split_parts(value: Any) -> tuple[Any, Any]:
    """Return the real and the imaginary part, which is zeros for real arrays."""
    if isinstance(value, list | tuple):
        pairs = [split_parts(v) for v in value]
        return [real for real, _ in pairs], [imag for _, imag in pairs]
    if is_complex(value):
        return value.real, value.imag
    return value, ArrayOperators.functions.zeros_like(value)


def join_each(real: Any, imag: Any) -> Any:
    """Return the complex arrays of two arrays, or of two lists of arrays."""
    if isinstance(real, list | tuple):
        return type(real)(map(join_each, real, imag))
    return ComplexArray(real, imag)
