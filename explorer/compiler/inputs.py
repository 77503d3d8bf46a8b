"""Inputs of a run: names, dtypes, indices within bounds, and sizes.

Complex arrays are pairs of a program's values: inputs are split, outputs are joined.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from explorer.cached_property import cached_property
from explorer.errors import (
    BadOption,
    BoundError,
    DtypeError,
    MissingInput,
    ShapeError,
    UnknownInput,
    did_you_mean,
)
from explorer.frontends.model import Model
from explorer.ir.dims import Dim, Sizes, evaluate_dim, symbols_of
from explorer.ir.types import Object, Tensor, numpy_dtype
from explorer.passes.random_inputs import index_limits
from explorer.runtime.dlpack import readable

Inputs = Mapping[str, np.ndarray]
NO_LIMIT = 1 << 62  # of an index: more elements than there are anywhere


class ModelInputs:
    """The inputs of a model: their names and order, and the bounds of indices among them."""

    def __init__(self, model: Model) -> None:
        """Read the inputs of a model."""
        self.model = model

    def named(self, inputs: Inputs | tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
        """Return inputs by name; positional ones follow the model's order.

        A complex input is one array, or its parts.
        """
        names = self._parameters
        if self.model.complex_inputs:
            inputs = self._in_parts(inputs)
        if isinstance(inputs, Mapping):
            unknown = [n for n in inputs if n not in names]
            if unknown:
                raise UnknownInput(
                    f"{self.model.name} has no input {unknown[0]!r}: it has {', '.join(names)}",
                    where=unknown[0],
                    expected=", ".join(names),
                )
            return self._check_indices({n: self._array(n, a) for n, a in inputs.items()})
        if len(inputs) > len(names):
            raise UnknownInput(
                f"{self.model.name} takes {len(names)} inputs, {len(inputs)} were given"
            )
        return self._check_indices(
            {n: self._array(n, a) for n, a in zip(names, inputs, strict=False)}
        )

    def _in_parts(self, inputs: Inputs | tuple[np.ndarray, ...]) -> Inputs:
        """Return inputs by name, with real and imaginary parts instead of complex arrays."""
        complex_names = {
            f"{n}.{part}": n for n in self.model.complex_inputs for part in ("real", "imag")
        }
        if not isinstance(inputs, Mapping):
            names = dict.fromkeys(complex_names.get(n, n) for n in self._parameters)
            if len(inputs) > len(names):
                raise UnknownInput(
                    f"{self.model.name} takes {len(names)} inputs, {len(inputs)} were given"
                )
            inputs = dict(zip(names, inputs, strict=False))
        parts: dict[str, np.ndarray] = {}
        for name, value in inputs.items():
            if name in self.model.complex_inputs:
                array = np.asarray(readable(name, value))
                parts[f"{name}.real"] = np.array(array.real, order="C")
                parts[f"{name}.imag"] = np.array(array.imag, order="C")
            else:
                parts[name] = value
        return parts

    def joined(self, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return outputs by name, with complex arrays instead of real and imaginary parts."""
        if not self.model.complex_outputs:
            return outputs
        joined_outputs: dict[str, np.ndarray] = {}
        for name, array in outputs.items():
            base, _, part = name.rpartition(".")
            if base not in self.model.complex_outputs:
                joined_outputs[name] = array
            elif part == "real":
                from explorer.frontends.python.tracing.operators import join_parts

                joined_outputs[base] = join_parts(array, outputs[f"{base}.imag"])
        return joined_outputs

    def of_call(
        self, inputs: Inputs | np.ndarray | None, more: tuple[np.ndarray, ...]
    ) -> dict[str, np.ndarray]:
        """Return the arguments of a call by name: a mapping, or arrays in order."""
        if isinstance(inputs, Mapping):
            return self.named(inputs)
        if inputs is None:
            for name in self.model.inputs:
                raise MissingInput(f"{self.model.name} needs the input {name!r}")
            return {}
        return self.named((inputs, *more))

    def _array(self, name: str, value: Any) -> Any:
        """Return an input as an array, without a copy if another library holds it.

        Python numbers, nested in lists or alone, take the dtype of the input. A sequence or an
        optional is returned unchanged.
        """
        if self._parameters[name]:
            return value
        declared = self.model.inputs.get(name)
        if isinstance(value, bool | int | float | list | tuple) and isinstance(declared, Tensor):
            return _array_of_numbers(name, value, declared)
        return np.asarray(readable(name, value))

    @cached_property
    def _parameters(self) -> dict[str, bool]:
        """The model's inputs in order, each with True if it is an object rather than an array."""
        params = self.model.program.main.params
        return {p.name: isinstance(self.model.inputs.get(p.name), Object) for p in params}

    @cached_property
    def _limits(self) -> dict[str, tuple[Dim, ...]]:
        """For each input that is an index, the extents that it selects from."""
        return index_limits(self.model.program)

    @cached_property
    def _sources(self) -> dict[str, tuple[str, int]]:
        """For each symbol an input that has it as a dim, and which dim."""
        params = self.model.program.main.params
        tensors = [p for p in params if isinstance(p.type, Tensor) and p.type.is_known]
        return {
            str(dim): (p.name, n)
            for p in reversed(tensors)
            for n, dim in enumerate(p.tensor.dims)
            if not isinstance(dim, int) and symbols_of(dim) == {str(dim)}
        }

    def _check_indices(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the inputs, or raise BoundError if an index is out of bounds."""
        for name, extents in self._limits.items():
            values = inputs.get(name)
            if values is None or values.dtype.kind not in "iu" or not values.size:
                continue
            limit = min([self._extent(n, inputs) for n in extents], default=NO_LIMIT)
            low, high = int(values.min()), int(values.max())
            if high >= limit or low < -limit:
                raise BoundError(
                    f"the input {name!r} holds {high if high >= limit else low}, "
                    f"and selects from {limit} elements",
                    where=name,
                    expected=f"{-limit} to {limit - 1}",
                    actual=f"{low} to {high}",
                )
        return inputs

    def _extent(self, extent: Dim, inputs: Mapping[str, np.ndarray]) -> int:
        """Return an extent in this call; a number above any index if no input determines it."""
        sizes = {}
        for symbol in symbols_of(extent):
            name, n = self._sources.get(symbol, ("", 0))
            shape = np.shape(inputs.get(name, ()))
            if n >= len(shape):
                return NO_LIMIT
            sizes[symbol] = shape[n]
        return evaluate_dim(extent, sizes)


def _array_of_numbers(name: str, value: Any, declared: Tensor) -> np.ndarray:
    """Return Python numbers, nested in lists or alone, as an array of an input's dtype."""
    try:
        array = np.asarray(value)
        kinds = {type(v) for v in np.asarray(value, object).flat}
    except (ValueError, TypeError) as problem:
        raise ShapeError(
            f"the input {name!r} is given as lists that are no array: {problem}",
            where=name,
            expected=declared,
            try_="lists of equal lengths, or an array",
        ) from None
    if declared.dtype is None or not kinds <= {bool, int, float}:
        return array
    dtype = numpy_dtype(declared.dtype)
    if array.dtype.kind == dtype.kind == "b" or not array.size:
        return array.astype(dtype)
    if array.dtype.kind == "i" and dtype.kind in "iu":
        return _of_integers(name, array, dtype)
    is_float = dtype.kind in "fV"
    return array.astype(dtype) if array.dtype.kind in "if" and is_float else array


def _of_integers(name: str, array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Convert integers to an input's dtype; raise DtypeError if one is out of range."""
    limits = np.iinfo(dtype)
    low, high = int(array.min()), int(array.max())
    if low < limits.min or high > limits.max:
        raise DtypeError(
            f"the input {name!r} is {dtype}, which cannot hold {low if low < limits.min else high}",
            where=name,
            expected=f"{limits.min} to {limits.max}",
            actual=f"{low} to {high}",
        )
    return array.astype(dtype)


def checked_sizes(model: Model, sizes: Sizes, symbols: Collection[str]) -> dict[str, int]:
    """Return sizes by symbol as integers.

    Raises:
        BadOption: There is no such symbol.
        BoundError: A size is not a whole number from 0 on.
    """
    unknown = [n for n in sizes if n not in symbols]
    if unknown:
        names, near = ", ".join(symbols) or "none", did_you_mean(unknown[0], symbols)
        raise BadOption(
            f"{model.name} has no symbol {unknown[0]!r}{near}: it has {names}", where=unknown[0]
        )
    for name, size in sizes.items():
        if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 0:
            raise BoundError(
                f"the size of {name} is a whole number from 0 on, found {size!r}",
                where=name,
                actual=size,
            )
    return {name: int(size) for name, size in sizes.items()}
