"""What the shapes of the inputs say: a value for each symbol, or which input is wrong."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import sympy

from explorer.errors import BoundError, DtypeError, MissingInput, ShapeError, UnknownInput
from explorer.ir.calls import Var
from explorer.ir.dims import Dim, evaluate_dim, symbols_of
from explorer.ir.program import Program
from explorer.ir.types import Tensor


def bind_sizes(program: Program, inputs: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The value of each symbol, from the shapes of the inputs.

    Raises MissingInput, UnknownInput, DtypeError, ShapeError or BoundError, naming the input.
    """
    params = program.main.params
    names = {p.name for p in params}
    for name in inputs:
        if name not in names:
            raise UnknownInput(
                f"there is no input {name!r}; the inputs are {_names(params)}",
                where=name,
                expected=_names(params),
            )
    sizes: dict[str, int] = {}
    later: list[tuple[Var, int, Dim, int]] = []
    for param in params:
        if param.name not in inputs:
            raise MissingInput(f"the input {param.name!r} is missing", where=param.name)
        _match(param, inputs[param.name], sizes, later)
    for param, axis, dim, extent in later:
        if not symbols_of(dim) <= sizes.keys():
            continue
        if evaluate_dim(dim, sizes) != extent:
            _wrong(param, axis, extent, f"{dim} = {evaluate_dim(dim, sizes)}")
    _check_bounds(program, sizes)
    return sizes


def _names(params: tuple[Var, ...]) -> str:
    return ", ".join(repr(p.name) for p in params)


def _match(
    param: Var, array: np.ndarray, sizes: dict[str, int], later: list[tuple[Var, int, Dim, int]]
) -> None:
    known = param.type
    if not isinstance(known, Tensor):
        return
    if known.dtype is not None and array.dtype.name != known.dtype:
        raise DtypeError(
            f"the input {param.name!r} must be {known.dtype} and is {array.dtype.name}",
            where=param.name,
            expected=known.dtype,
            found=array.dtype.name,
        )
    if known.shape is None:
        return
    if array.ndim != len(known.shape):
        raise ShapeError(
            f"the input {param.name!r} must have shape [{_text(known.shape)}] and has "
            f"[{_text(array.shape)}]",
            where=param.name,
            expected=known.shape,
            found=array.shape,
        )
    for axis, (dim, extent) in enumerate(zip(known.shape, array.shape, strict=True)):
        if isinstance(dim, int):
            if dim != extent:
                _wrong(param, axis, extent, str(dim))
        elif isinstance(dim, sympy.Symbol):
            if sizes.setdefault(dim.name, extent) != extent:
                _wrong(param, axis, extent, f"{dim.name} = {sizes[dim.name]}")
        else:
            later.append((param, axis, dim, extent))


def _text(shape: tuple[Dim, ...]) -> str:
    return ", ".join(map(str, shape))


def _wrong(param: Var, axis: int, extent: int, wanted: str) -> None:
    assert isinstance(param.type, Tensor)
    raise ShapeError(
        f"dim {axis} of the input {param.name!r} must be {wanted} and is {extent}",
        where=param.name,
        expected=f"[{_text(param.type.dims)}]",
        found=extent,
    )


def _check_bounds(program: Program, sizes: Mapping[str, int]) -> None:
    for known in program.env.symbols:
        value = sizes.get(known.name)
        if value is None:
            continue
        if value < known.low or (known.high is not None and value > known.high):
            high = "any" if known.high is None else known.high
            raise BoundError(
                f"{known.name} is {value} and was bounded to {known.low} .. {high}",
                where=known.name,
                expected=f"{known.low} .. {high}",
                found=value,
                try_=f"load the model with bounds={{{known.name!r}: (low, high)}} that allow it",
            )
