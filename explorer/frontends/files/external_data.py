"""Tensors that a model stores in other files of its folder.

Each is read once, into our own memory, or if large into a file of our own.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from explorer.errors import BadModelFile
from explorer.frontends.files.plain_file import PlainFile, room_on_disk
from explorer.frontends.files.tensors import as_array, checked_tensor, file_array, file_bytes

ON_DISK_BYTES = 256 << 20  # a tensor from this size on is copied to disk if there is room
Place = tuple[Path, int, int, int, tuple[int, ...]]  # file, first byte, length, element, shape


class ExternalData:
    """Open files of external data and the arrays read from them; equal places share one array."""

    def __init__(self, folder: Path) -> None:
        """Read from a model's folder; no file is opened yet."""
        self._folder = folder
        self._files: dict[Path, PlainFile] = {}
        self._places: dict[str, Place] = {}
        self._arrays: dict[Place, np.ndarray] = {}

    def __enter__(self) -> ExternalData:
        """Return self."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()

    def check_unchanged(self) -> None:
        """Raise BadModelFile if a file was modified while it was read."""
        for file in self._files.values():
            file.check_unchanged()

    def new_bytes(self, tensor: onnx.TensorProto) -> int:
        """Return the memory that reading a tensor will take, in bytes; 0 if it was read before."""
        place = self._places[tensor.name] = self._place(tensor)
        if place in self._arrays:
            return 0
        count = file_bytes(tensor, place[2])
        if place[2] >= ON_DISK_BYTES and room_on_disk() > 2 * place[2]:
            return count - place[2]
        return count

    def array(self, tensor: onnx.TensorProto) -> np.ndarray:
        """Return the value of a tensor whose size `new_bytes` has counted."""
        place = self._places[tensor.name]
        if place not in self._arrays:
            path, first, length, _, _ = place
            self._arrays[place] = self._read(self._files[path], tensor, first, length)
        return self._arrays[place]

    def _read(
        self, file: PlainFile, tensor: onnx.TensorProto, first: int, length: int
    ) -> np.ndarray:
        if length >= ON_DISK_BYTES and room_on_disk() > 2 * length:
            return as_array(tensor, file.map_copy(first, length))
        return file_array(file, tensor, first, length)

    def _place(self, tensor: onnx.TensorProto) -> Place:
        entries = {e.key: e.value for e in tensor.external_data}
        path = _resolve_location(self._folder, entries.get("location", ""), tensor.name)
        try:
            offset, length = (_number(entries.get(key)) for key in ("offset", "length"))
        except ValueError as error:
            raise BadModelFile(
                f"gives {tensor.name!r} an offset or length that is not a number"
            ) from error
        if path not in self._files:
            self._files[path] = _open(path, tensor.name)
        first, size = offset or 0, self._files[path].size
        count = size - first if length is None else length
        if first < 0 or count < 0 or first + count > size:
            raise BadModelFile(f"says that {tensor.name!r} lies outside of {path.name}")
        return path, first, count, tensor.data_type, checked_tensor(tensor)


def _number(text: str | None) -> int | None:
    if text is not None and len(text) > 20:
        raise ValueError(text[:20])
    return None if text is None else int(text)


def _open(path: Path, name: str) -> PlainFile:
    try:
        return PlainFile(path)
    except OSError as error:
        raise BadModelFile(
            f"wants {name!r} from {path.name!r}, which cannot be read: {error.strerror}"
        ) from error


def _resolve_location(folder: Path, location: str, name: str) -> Path:
    """Return the path of external data, which must be a plain file in the model's folder."""
    try:
        root = folder.resolve()
        path = (root / location).resolve()
        outside = not location or Path(location).is_absolute() or not path.is_relative_to(root)
        exists = outside or path.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # cyclic links, a NUL, a long name
        raise BadModelFile(
            f"wants {name!r} from {location!r}, which is not a valid path"
        ) from error
    if outside:
        raise BadModelFile(f"wants {name!r} from {location!r}, outside of the model's folder")
    if not exists:
        raise BadModelFile(f"wants {name!r} from {location!r}, which is not a file")
    return path
