"""Tensors that a model keeps in other files of its folder: each is read once, into memory of our
own, or where it is a large table, into a file of our own.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from explorer.errors import BadModelFile
from explorer.frontends.files.plain_file import PlainFile, room_on_disk
from explorer.frontends.files.tensors import as_array, checked_tensor, file_array, file_bytes

ON_DISK_BYTES = 256 << 20  # a tensor from this size on is copied on the disk where that has room
Place = tuple[Path, int, int, int, tuple[int, ...]]  # file, first byte, length, element, shape


class ExternalData:
    """The files that were opened, and what was read of them: equal places become one array."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Path, PlainFile] = {}
        self._places: dict[str, Place] = {}
        self._arrays: dict[Place, np.ndarray] = {}

    def __enter__(self) -> ExternalData:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def check_unchanged(self) -> None:
        """BadModelFile where a file was written to while it was read: half of it may be old."""
        for file in self._files.values():
            file.check_unchanged()

    def new_bytes(self, tensor: onnx.TensorProto) -> int:
        """What reading a tensor will take; nothing where its bytes were read before."""
        place = self._places[tensor.name] = self._place(tensor)
        if place in self._arrays:
            return 0
        count = file_bytes(tensor, place[2])
        if place[2] >= ON_DISK_BYTES and room_on_disk() > 2 * place[2]:
            return count - place[2]
        return count

    def array(self, tensor: onnx.TensorProto) -> np.ndarray:
        """The value of a tensor whose size was judged."""
        place = self._places[tensor.name]
        if place not in self._arrays:
            path, first, length, _, _ = place
            self._arrays[place] = self._read(self._files[path], tensor, first, length)
        return self._arrays[place]

    def _read(
        self, file: PlainFile, tensor: onnx.TensorProto, first: int, length: int
    ) -> np.ndarray:
        if length >= ON_DISK_BYTES and room_on_disk() > 2 * length:
            return as_array(tensor, file.copied(first, length))
        return file_array(file, tensor, first, length)

    def _place(self, tensor: onnx.TensorProto) -> Place:
        entries = {e.key: e.value for e in tensor.external_data}
        path = _inside(self._folder, entries.get("location", ""), tensor.name)
        try:
            offset, length = (_number(entries.get(key)) for key in ("offset", "length"))
        except ValueError as error:
            raise BadModelFile(f"says of {tensor.name!r} an offset that is no number") from error
        if path not in self._files:
            self._files[path] = _opened(path, tensor.name)
        first, size = offset or 0, self._files[path].size
        count = size - first if length is None else length
        if first < 0 or count < 0 or first + count > size:
            raise BadModelFile(f"says that {tensor.name!r} lies outside of {path.name}")
        return path, first, count, tensor.data_type, checked_tensor(tensor)


def _number(text: str | None) -> int | None:
    if text is not None and len(text) > 20:
        raise ValueError(text[:20])
    return None if text is None else int(text)


def _opened(path: Path, name: str) -> PlainFile:
    try:
        return PlainFile(path)
    except OSError as error:
        raise BadModelFile(
            f"wants {name!r} from {path.name!r}, which cannot be read: {error.strerror}"
        ) from error


def _inside(folder: Path, location: str, name: str) -> Path:
    """The file of external data, which must be a plain file in the model's folder."""
    try:
        root = folder.resolve()
        found = (root / location).resolve()
        outside = not location or Path(location).is_absolute() or not found.is_relative_to(root)
        there = outside or found.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a NUL, a long name
        raise BadModelFile(f"wants {name!r} from {location!r}, which names no file") from error
    if outside:
        raise BadModelFile(f"wants {name!r} from {location!r}, outside of the model's folder")
    if not there:
        raise BadModelFile(f"wants {name!r} from {location!r}, which is no file")
    return found
