"""Operators, methods and NumPy protocols of traced values, mapped to `explorer.np`.

Complex values of a trace are pairs of real arrays, because programs have real values only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from explorer.errors import TraceError
from explorer.frontends.python.tracing.frames import calling_line


class ArrayOperators(NDArrayOperatorsMixin):
    """Base class whose operators, methods and NumPy protocols call `explorer.np`.

    An operator is NumPy's ufunc of the same meaning, which calls `__array_ufunc__`.
    """

    functions: ClassVar[Any] = None  # explorer.np, set there to avoid an import cycle

    __hash__ = None  # type: ignore[assignment] # as NumPy's arrays

    @property
    def T(self) -> Any:
        """The array with its dims reversed."""
        return self.functions.transpose(self)

    @property
    def mT(self) -> Any:
        """The array with its last two dims swapped."""
        return self.functions.swapaxes(self, -1, -2)

    # NumPy's protocols: x + y, numpy.exp(x), array + x, numpy.sum(x).

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Call the function of `explorer.np` for a NumPy ufunc."""
        if method != "__call__" or kwargs:
            self._unknown(f"numpy.{ufunc.__name__}.{method}")
        return self._named(ufunc.__name__)(*inputs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Call the function of `explorer.np` for a NumPy function."""
        return self._named(func.__name__, func.__module__)(*args, **kwargs)

    def _named(self, name: str, module: str = "numpy") -> Any:
        functions = self.functions
        if module in ("numpy.fft", "numpy.linalg"):
            functions = getattr(functions, module.removeprefix("numpy."))
        function = getattr(functions, name, None)
        return function if function is not None else self._unknown(f"{module}.{name}")

    def _unknown(self, name: str) -> NoReturn:
        line = calling_line()
        raise TraceError(
            f"{line}: {name} is not supported on traced arrays; see explorer.np",
            where=line,
        )

    def __pos__(self) -> Any:
        """Return a copy."""
        return self.copy()

    def __getitem__(self, index: Any) -> Any:
        """Return `self[index]`."""
        return self.functions.getitem(self, index)

    # Methods: functions of the same name.

    def __getattr__(self, name: str) -> Any:
        """Return the method that calls the function of `explorer.np` of the same name."""
        if name not in METHODS:
            raise AttributeError(f"a traced array has no attribute {name!r}")
        function = getattr(self.functions, name)
        return lambda *args, **kwargs: function(self, *args, **kwargs)

    def reshape(self, *shape: Any) -> Any:
        """Return the same elements in another shape; one dim may be -1."""
        return self.functions.reshape(self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Any:
        """Permute the dims, by default in reverse."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return self.functions.transpose(self, order or None)

    def flatten(self) -> Any:
        """Return a copy with all elements in one dim."""
        return self.functions.ravel(self).copy()


IN_PLACE = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and", "or", "xor", "lshift", "rshift"),
)
for _name in IN_PLACE:  # `x += y` rebinds x unless a subclass changes its elements
    setattr(ArrayOperators, f"__i{_name}__", getattr(ArrayOperators, f"__{_name}__"))

METHODS = frozenset(
    [
        "all",
        "any",
        "argmax",
        "argmin",
        "argsort",
        "astype",
        "clip",
        "conj",
        "conjugate",
        "copy",
        "cumsum",
        "dot",
        "max",
        "mean",
        "min",
        "nonzero",
        "prod",
        "ravel",
        "repeat",
        "round",
        "squeeze",
        "std",
        "sum",
        "swapaxes",
        "take",
        "var",
    ]
)


# Complex arrays.


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
