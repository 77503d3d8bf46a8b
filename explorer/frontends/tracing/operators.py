"""Operators, methods and NumPy protocols of traced values, mapped to `explorer.np`."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from explorer.errors import TraceError
from explorer.frontends.tracing.lines import calling_line


class ArrayOperators:
    """Base class whose operators, methods and NumPy protocols call `explorer.np`."""

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

    # NumPy's protocols: numpy.exp(x), array + x, numpy.sum(x).

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

    # Operators.

    def __add__(self, other: Any) -> Any:
        """Return self + other."""
        return self.functions.add(self, other)

    def __radd__(self, other: Any) -> Any:
        """Return other + self."""
        return self.functions.add(other, self)

    def __sub__(self, other: Any) -> Any:
        """Return self - other."""
        return self.functions.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        """Return other - self."""
        return self.functions.subtract(other, self)

    def __mul__(self, other: Any) -> Any:
        """Return self * other."""
        return self.functions.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        """Return other * self."""
        return self.functions.multiply(other, self)

    def __truediv__(self, other: Any) -> Any:
        """Return self / other."""
        return self.functions.divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        """Return other / self."""
        return self.functions.divide(other, self)

    def __floordiv__(self, other: Any) -> Any:
        """Return self // other."""
        return self.functions.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        """Return other // self."""
        return self.functions.floor_divide(other, self)

    def __mod__(self, other: Any) -> Any:
        """Return self % other."""
        return self.functions.remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        """Return other % self."""
        return self.functions.remainder(other, self)

    def __divmod__(self, other: Any) -> Any:
        """Return divmod(self, other)."""
        return self.functions.divmod(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        """Return divmod(other, self)."""
        return self.functions.divmod(other, self)

    def __pow__(self, other: Any) -> Any:
        """Return self ** other."""
        return self.functions.power(self, other)

    def __rpow__(self, other: Any) -> Any:
        """Return other ** self."""
        return self.functions.power(other, self)

    def __matmul__(self, other: Any) -> Any:
        """Return self @ other."""
        return self.functions.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        """Return other @ self."""
        return self.functions.matmul(other, self)

    def __neg__(self) -> Any:
        """Return -self."""
        return self.functions.negative(self)

    def __pos__(self) -> Any:
        """Return a copy."""
        return self.copy()

    def __abs__(self) -> Any:
        """Return the absolute value."""
        return self.functions.abs(self)

    def __invert__(self) -> Any:
        """Return ~self."""
        return self.functions.invert(self)

    def __and__(self, other: Any) -> Any:
        """Return self & other."""
        return self.functions.bitwise_and(self, other)

    def __rand__(self, other: Any) -> Any:
        """Return other & self."""
        return self.functions.bitwise_and(other, self)

    def __or__(self, other: Any) -> Any:
        """Return self | other."""
        return self.functions.bitwise_or(self, other)

    def __ror__(self, other: Any) -> Any:
        """Return other | self."""
        return self.functions.bitwise_or(other, self)

    def __xor__(self, other: Any) -> Any:
        """Return self ^ other."""
        return self.functions.bitwise_xor(self, other)

    def __rxor__(self, other: Any) -> Any:
        """Return other ^ self."""
        return self.functions.bitwise_xor(other, self)

    def __lshift__(self, other: Any) -> Any:
        """Return self << other."""
        return self.functions.left_shift(self, other)

    def __rlshift__(self, other: Any) -> Any:
        """Return other << self."""
        return self.functions.left_shift(other, self)

    def __rshift__(self, other: Any) -> Any:
        """Return self >> other."""
        return self.functions.right_shift(self, other)

    def __rrshift__(self, other: Any) -> Any:
        """Return other >> self."""
        return self.functions.right_shift(other, self)

    def __lt__(self, other: Any) -> Any:
        """Return self < other."""
        return self.functions.less(self, other)

    def __le__(self, other: Any) -> Any:
        """Return self <= other."""
        return self.functions.less_equal(self, other)

    def __gt__(self, other: Any) -> Any:
        """Return self > other."""
        return self.functions.greater(self, other)

    def __ge__(self, other: Any) -> Any:
        """Return self >= other."""
        return self.functions.greater_equal(self, other)

    def __eq__(self, other: object) -> Any:
        """Return self == other."""
        return self.functions.equal(self, other)

    def __ne__(self, other: object) -> Any:
        """Return self != other."""
        return self.functions.not_equal(self, other)

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
