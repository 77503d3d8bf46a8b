"""NumPy's dtype promotion (NEP 50): stand-ins for Python numbers are weakly typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.errors import DtypeError
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.complex_array import ComplexArray, is_complex
from explorer.frontends.tracing.dims import SymbolicDim
from explorer.frontends.tracing.emit import emit, emit_shape
from explorer.frontends.tracing.frames import current_frame, is_tracing
from explorer.frontends.tracing.lines import calling_line
from explorer.ir.types import ITEM_BYTES, dtype_of

PythonNumber = bool | int | float


def traced(value: Any) -> TracedArray:
    """Return a value as a traced array; arrays and numbers become constants of the program."""
    if isinstance(value, TracedArray):
        return value
    if isinstance(value, SymbolicDim):
        scalar = emit_shape((value.expr,), scalar=True)
        scalar.weak = True
        return scalar
    if isinstance(value, (list, tuple)) and any(is_traced(v) for v in value):
        stacked: TracedArray = TracedArray.functions.stack(list(value))
        return stacked
    if _is_replaced(value):
        replacement: TracedArray = current_frame().recorder.replaced[id(value)][1]
        return replacement
    if is_complex(value):
        raise DtypeError(
            f"{calling_line()}: expected a real array, found a complex one",
            where=calling_line(),
            expected="a real array",
            try_="its .real and .imag",
        )
    array = np.asarray(value)
    if array.dtype.name not in ITEM_BYTES:
        raise DtypeError(
            f"{calling_line()}: a program cannot hold an array of {array.dtype}",
            where=calling_line(),
            expected=", ".join(ITEM_BYTES),
            actual=array.dtype,
        )
    frame = current_frame()
    constant = frame.recorder.constant(array)
    return TracedArray(constant, frame, weak=isinstance(value, PythonNumber))


def is_traced(value: Any) -> bool:
    """Return True if a value, or one nested in it, is known only at run time."""
    if isinstance(value, (TracedArray, SymbolicDim, ComplexArray)):
        return True
    if isinstance(value, np.ndarray):
        return _is_replaced(value)
    if isinstance(value, (list, tuple)):
        return any(is_traced(v) for v in value)
    if isinstance(value, slice):
        return any(is_traced(v) for v in (value.start, value.stop, value.step))
    return isinstance(value, dict) and any(is_traced(v) for v in value.values())


def _is_replaced(value: Any) -> bool:
    """Return True if elements of a NumPy array were replaced by traced values."""
    if not isinstance(value, np.ndarray) or not is_tracing():
        return False
    return id(value) in current_frame().recorder.replaced


def is_weak(value: Any) -> bool:
    """Return True if a value is, or stands for, a Python number."""
    if isinstance(value, TracedArray):
        return value.weak
    return isinstance(value, (PythonNumber, SymbolicDim)) and not isinstance(value, np.generic)


def kind_of(value: Any) -> Any:
    """Return the argument of NumPy's promotion for a value: a dtype, or Python's int or float."""
    if isinstance(value, SymbolicDim):
        return int
    if isinstance(value, TracedArray):
        if value.weak and value.dtype.kind in "if":
            return int if value.dtype.kind == "i" else float
        return value.dtype
    if isinstance(value, ComplexArray):
        return value.dtype
    if type(value) is complex or (is_weak(value) and not isinstance(value, bool)):
        return type(value)
    return np.asarray(value).dtype


def common_dtype(values: Sequence[Any]) -> np.dtype[np.generic]:
    """Return the promoted dtype of the values."""
    return np.result_type(*(_example(kind_of(v)) for v in values))


def _example(kind: Any) -> Any:
    return kind(0) if any(kind is number for number in (int, float, complex)) else kind


def converted(value: Any, dtype: Any) -> TracedArray:
    """Return the value in another dtype."""
    target = np.dtype(dtype)
    if not is_traced(value):
        return traced(np.asarray(value).astype(target))
    array = traced(value)
    if array.dtype == target:
        return TracedArray(array.value, array.home) if array.weak else array
    if target.name not in ITEM_BYTES:
        raise DtypeError(f"{calling_line()}: there are no kernels for {target}", actual=target)
    if target.kind == "b":  # every number but 0 is true, also NaN
        zero = traced(np.zeros((), array.dtype))
        return emit("Not", emit("Equal", array, zero))
    cast = emit("Cast", array, to=dtype_of(np.empty(0, target)))
    return cast
