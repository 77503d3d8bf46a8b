"""The arrays and sizes that a model is run with."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from explorer.budget import check_room
from explorer.errors import BadOption, BoundError, UnknownInput

__all__ = ["from_file", "sizes"]


def from_file(path: str, input_names: Sequence[str]) -> dict[str, np.ndarray]:
    """Read the arrays of an .npz file by name; nothing is unpickled.

    Raises:
        BadOption: the file is missing, is no archive or holds something else than arrays.
        UnknownInput: an array is named like no input of the model.
    """
    file = Path(path)
    if not file.is_file():
        raise BadOption(f"there is no file of inputs at {path}", where=path)
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except zipfile.BadZipFile:
        raise BadOption(
            f"{path} is not an .npz file: it is no archive, or is damaged", where=path
        ) from None
    names = [entry.filename.removesuffix(".npy") for entry in entries]
    for name in names:
        if name not in input_names:
            raise UnknownInput(
                f"{path} holds {name!r}, which is no input of the model; "
                f"it has {', '.join(input_names)}",
                where=name,
                expected=", ".join(input_names),
                actual=name,
            )
    check_room(sum(entry.file_size for entry in entries), f"{path}, unpacked,", path)
    with np.load(file, allow_pickle=False) as arrays:
        return {name: _read(path, arrays, name) for name in names}


def _read(path: str, arrays: Mapping[str, Any], name: str) -> np.ndarray:
    try:
        array = arrays[name]
    except Exception as problem:  # a file from elsewhere may raise anything
        raise BadOption(
            f"{path}: the array {name!r} cannot be read: {problem}", where=name
        ) from None
    if not isinstance(array, np.ndarray):
        raise BadOption(f"{path}: {name!r} is no array", where=name)
    return array


def sizes(program: Any, bound: Mapping[str, int]) -> dict[str, int]:
    """Return a value for each symbol of a program: the bound one, else its hint.

    Raises:
        BadOption: a bound name is no symbol of the program.
        BoundError: a bound value is outside of the symbol's bounds.
    """
    hints = dict(program.env.hints)
    for name, value in bound.items():
        if name not in hints:
            symbols = ", ".join(hints) or "none: every dim is a number"
            raise BadOption(
                f"--bind names {name!r}, which is no symbolic dim of the model; it has {symbols}",
                where=name,
                expected=symbols,
                actual=name,
            )
        limits = program.env.of(name)
        if value < limits.low or (limits.high is not None and value > limits.high):
            low, high = limits.low, limits.high
            allowed = f"{low} or more" if high is None else f"{low} to {high}"
            raise BoundError(
                f"--bind sets {name} to {value}, outside its bounds, {allowed}",
                where=name,
                expected=allowed,
                actual=value,
            )
    return {**hints, **bound}


def check_sizes(program: Any, arrays: Mapping[str, np.ndarray], bound: Mapping[str, int]) -> None:
    """Raise a `BoundError` if the inputs' shapes and `--bind` give different sizes."""
    from explorer.ops.reference.bind import bind_sizes

    sizes_of_inputs = bind_sizes(program, arrays)
    for name, value in bound.items():
        if sizes_of_inputs.get(name, value) != value:
            raise BoundError(
                f"--bind sets {name} to {value}, and the inputs make it {sizes_of_inputs[name]}",
                where=name,
                expected=value,
                actual=sizes_of_inputs[name],
            )
