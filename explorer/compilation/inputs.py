"""What a run is given: inputs by name, whose indices name elements that there are, and sizes.

Complex arrays are pairs of a program's values: inputs are taken apart, outputs are joined.
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
from explorer.frontends.tracing.complex_array import join_parts
from explorer.ir.shapes.dims import Dim, Sizes, evaluate_dim, symbols_of
from explorer.ir.types import Object, Tensor, numpy_dtype
from explorer.passes.pipeline.random_inputs import index_limits
from explorer.runtime.dlpack import readable

Inputs = Mapping[str, np.ndarray]
NO_LIMIT = 1 << 62  # of an index: more elements than there are anywhere


class ModelInputs:
    """The inputs of a model: their names and order, and what indices among them may be."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def named(self, inputs: Inputs | tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
        """Inputs by name; positional ones are taken in the model's order. A complex input is given
        as one array, or as its parts.
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
            return self._indices_checked({n: self._array(n, a) for n, a in inputs.items()})
        if len(inputs) > len(names):
            raise UnknownInput(
                f"{self.model.name} takes {len(names)} inputs, {len(inputs)} were given"
            )
        return self._indices_checked(
            {n: self._array(n, a) for n, a in zip(names, inputs, strict=False)}
        )

    def _in_parts(self, inputs: Inputs | tuple[np.ndarray, ...]) -> Inputs:
        """Inputs by name, real and imaginary parts in the place of complex arrays."""
        whole = {f"{n}.{part}": n for n in self.model.complex_inputs for part in ("real", "imag")}
        if not isinstance(inputs, Mapping):
            names = dict.fromkeys(whole.get(n, n) for n in self._parameters)
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
        """Outputs by name, complex arrays in the place of real and imaginary parts."""
        if not self.model.complex_outputs:
            return outputs
        found: dict[str, np.ndarray] = {}
        for name, array in outputs.items():
            whole, _, part = name.rpartition(".")
            if whole not in self.model.complex_outputs:
                found[name] = array
            elif part == "real":
                found[whole] = join_parts(array, outputs[f"{whole}.imag"])
        return found

    def given(
        self, inputs: Inputs | np.ndarray | None, more: tuple[np.ndarray, ...]
    ) -> dict[str, np.ndarray]:
        """The arguments of a call by name: a mapping, or arrays in order."""
        if isinstance(inputs, Mapping):
            return self.named(inputs)
        if inputs is None:
            for name in self.model.inputs:
                raise MissingInput(f"{self.model.name} needs the input {name!r}")
            return {}
        return self.named((inputs, *more))

    def _array(self, name: str, value: Any) -> Any:
        """An input as an array, of another library's without a copy; Python numbers, nested in
        lists or alone, take the dtype of the input. A sequence or an optional stays what it is.
        """
        if self._parameters[name]:
            return value
        declared = self.model.inputs.get(name)
        if isinstance(value, bool | int | float | list | tuple) and isinstance(declared, Tensor):
            return _array_of_numbers(name, value, declared)
        return np.asarray(readable(name, value))

    @cached_property
    def _parameters(self) -> dict[str, bool]:
        """The model's inputs in order, and whether each is an object rather than an array."""
        given = self.model.program.main.params
        return {p.name: isinstance(self.model.inputs.get(p.name), Object) for p in given}

    @cached_property
    def _limits(self) -> dict[str, tuple[Dim, ...]]:
        return index_limits(self.model.program)

    @cached_property
    def _sources(self) -> dict[str, tuple[str, int]]:
        """Where each symbol stands alone as a dim of an input: the input, and which dim."""
        params = self.model.program.main.params
        known = [p for p in params if isinstance(p.type, Tensor) and p.type.is_known]
        return {
            str(dim): (p.name, n)
            for p in reversed(known)
            for n, dim in enumerate(p.tensor.dims)
            if not isinstance(dim, int) and symbols_of(dim) == {str(dim)}
        }

    def _indices_checked(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Raises BoundError where an input that is an index names an element that is not there."""
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
                    found=f"{low} to {high}",
                )
        return inputs

    def _extent(self, extent: Dim, inputs: Mapping[str, np.ndarray]) -> int:
        """An extent of this call; more than any index where no input says it."""
        sizes = {}
        for symbol in symbols_of(extent):
            name, n = self._sources.get(symbol, ("", 0))
            shape = np.shape(inputs.get(name, ()))
            if n >= len(shape):
                return NO_LIMIT
            sizes[symbol] = shape[n]
        return evaluate_dim(extent, sizes)


def _array_of_numbers(name: str, value: Any, declared: Tensor) -> np.ndarray:
    """Python numbers, nested in lists or alone, as an array of an input's dtype."""
    try:
        found = np.asarray(value)
        kinds = {type(v) for v in np.asarray(value, object).flat}
    except (ValueError, TypeError) as problem:
        raise ShapeError(
            f"the input {name!r} is given as lists that are no array: {problem}",
            where=name,
            expected=declared,
            try_="lists of equal lengths, or an array",
        ) from None
    if declared.dtype is None or not kinds <= {bool, int, float}:
        return found
    wanted = numpy_dtype(declared.dtype)
    if found.dtype.kind == wanted.kind == "b" or not found.size:
        return found.astype(wanted)
    if found.dtype.kind == "i" and wanted.kind in "iu":
        return _of_integers(name, found, wanted)
    is_float = wanted.kind in "fV"
    return found.astype(wanted) if found.dtype.kind in "if" and is_float else found


def _of_integers(name: str, found: np.ndarray, wanted: np.dtype[Any]) -> np.ndarray:
    limits = np.iinfo(wanted)
    low, high = int(found.min()), int(found.max())
    if low < limits.min or high > limits.max:
        raise DtypeError(
            f"the input {name!r} is {wanted}, and {low if low < limits.min else high} is none",
            where=name,
            expected=f"{limits.min} to {limits.max}",
            found=f"{low} to {high}",
        )
    return found.astype(wanted)


def checked_sizes(model: Model, sizes: Sizes, symbols: Collection[str]) -> dict[str, int]:
    """Sizes by symbol; BadOption where there is no such symbol, BoundError where one is no whole
    number from 0 on.
    """
    unknown = [n for n in sizes if n not in symbols]
    if unknown:
        known, near = ", ".join(symbols) or "none", did_you_mean(unknown[0], symbols)
        raise BadOption(
            f"{model.name} has no symbol {unknown[0]!r}{near}: it has {known}", where=unknown[0]
        )
    for name, size in sizes.items():
        if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 0:
            raise BoundError(
                f"the size of {name} is a whole number from 0 on, found {size!r}",
                where=name,
                found=size,
            )
    return {name: int(size) for name, size in sizes.items()}
