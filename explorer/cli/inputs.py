"""The arrays a model is run with: a file of them, or random ones that its uses allow."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from explorer.budget import check_room
from explorer.errors import BadOption, BoundError, UnknownInput

__all__ = ["from_file", "sizes"]


def from_file(path: str, known: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name: names that the model has; nothing is unpickled."""
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
        if name not in known:
            raise UnknownInput(
                f"{path} holds {name!r}, which is no input of the model; it has {', '.join(known)}",
                where=name,
                expected=", ".join(known),
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
    """A value for each symbol of a program: what was bound within its bounds, else its hint."""
    hints = dict(program.env.hints)
    for name, value in bound.items():
        if name not in hints:
            known = ", ".join(hints) or "none: every dim is a number"
            raise BadOption(
                f"--bind names {name!r}, which is no symbolic dim of the model; it has {known}",
                where=name,
                expected=known,
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


def agree(program: Any, given: Mapping[str, np.ndarray], bound: Mapping[str, int]) -> None:
    """Whether the shapes of the inputs say the same sizes as `--bind`; `BoundError` where not."""
    from explorer.ops.reference.bind import bind_sizes

    found = bind_sizes(program, given)
    for name, value in bound.items():
        if found.get(name, value) != value:
            raise BoundError(
                f"--bind sets {name} to {value}, and the inputs make it {found[name]}",
                where=name,
                expected=value,
                actual=found[name],
            )
