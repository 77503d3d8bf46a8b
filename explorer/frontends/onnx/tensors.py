"""Tensors of an ONNX file: types and shapes are checked, values become arrays.

A model may store tensors in other files of its folder. Each is read once, into our own memory, or
if large into a file of our own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from explorer.errors import BadModelFile
from explorer.frontends.onnx.plain_file import PlainFile, room_on_disk
from explorer.ir.dims import Dim
from explorer.ir.dtypes import (
    HOST_DTYPES,
    ITEM_BYTES,
    SMALL_INTEGERS,
    DType,
    computed,
    numpy_dtype,
)
from explorer.ir.types import Tensor

MAX_RANK = 16
MAX_ELEMENTS = 1 << 40
ALIGNMENT = 64


def element_type(data_type: int, name: str) -> DType:
    """Return the dtype of an ONNX element type; raise BadModelFile if it is unsupported."""
    try:
        numpy_type = onnx.helper.tensor_dtype_to_np_dtype(data_type)
    except KeyError:
        numpy_type = np.dtype(np.void)
    dtype = "string" if data_type == onnx.TensorProto.STRING else str(numpy_type.name)
    if dtype not in ITEM_BYTES and dtype not in HOST_DTYPES:
        kinds = {v: k for k, v in onnx.TensorProto.DataType.items()}
        kind = kinds.get(data_type, str(data_type))
        raise BadModelFile(f"holds {name!r} with elements of type {kind}, which has no kernels")
    return dtype


def declared_type(value: onnx.ValueInfoProto, unknown: Callable[[int, str], Dim]) -> Tensor:
    """Return the type that a file declares for a tensor.

    `unknown` returns the dim of an axis without a number, given the axis and its name, which may be
    empty.

    Raises:
        BadModelFile: the element type is invalid, or there are too many dims.
    """
    kind = value.type.tensor_type
    dtype = element_type(kind.elem_type, value.name) if kind.elem_type else None
    if not kind.HasField("shape"):
        return Tensor(None, dtype)
    if len(kind.shape.dim) > MAX_RANK:
        raise BadModelFile(f"declares {value.name!r} of rank {len(kind.shape.dim)}")
    dims: list[Dim] = []
    for axis, dim in enumerate(kind.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            dims.append(int(dim.dim_value))
        else:
            dims.append(unknown(axis, dim.dim_param))
    return Tensor(tuple(dims), dtype)


def checked_shape(dims: Sequence[int], name: str) -> tuple[int, ...]:
    """Return the dims of a tensor; raise BadModelFile if they are negative, or too large."""
    shape = tuple(int(d) for d in dims)
    if len(shape) > MAX_RANK or any(d < 0 for d in shape) or prod(shape) > MAX_ELEMENTS:
        raise BadModelFile(f"holds {name!r} with the impossible shape {list(shape)[:MAX_RANK]}")
    return shape


def small_array(tensor: onnx.TensorProto) -> np.ndarray:
    """Return the value of a tensor stored in the graph itself."""
    dtype = element_type(tensor.data_type, tensor.name)
    shape = checked_shape(tensor.dims, tensor.name)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise BadModelFile(f"stores {tensor.name!r}, which is not an initializer, in another file")
    if tensor.HasField("raw_data"):
        if dtype == "string":
            raise BadModelFile(f"holds {tensor.name!r}, whose strings are raw data")
        _check_length(tensor.name, len(tensor.raw_data), shape, dtype)
    try:
        array: np.ndarray = numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as error:  # invalid UTF-8 is a ValueError
        raise BadModelFile(f"holds {tensor.name!r}, whose data does not fit its shape") from error
    if array.shape != shape:
        raise BadModelFile(f"holds {tensor.name!r}, whose data does not fit its shape")
    return _sign_extend(array, dtype)


def _sign_extend(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Sign-extend integers of less than a byte to bytes, the form that kernels use."""
    if dtype not in SMALL_INTEGERS:
        return array
    spare = 8 - SMALL_INTEGERS[dtype]
    bits = array.view(computed(dtype))
    return np.asarray((bits << spare) >> spare, bits.dtype).view(numpy_dtype(dtype))


def _checked_tensor(tensor: onnx.TensorProto) -> tuple[int, ...]:
    """Return the shape of a tensor stored as raw data; raise BadModelFile if it is invalid."""
    if element_type(tensor.data_type, tensor.name) == "string":
        raise BadModelFile(f"holds {tensor.name!r}, whose strings are raw data")
    return checked_shape(tensor.dims, tensor.name)


def file_bytes(tensor: onnx.TensorProto, length: int) -> int:
    """Return the memory of a tensor that has this length in a file, in bytes.

    Raises:
        BadModelFile: the length does not fit its shape.
    """
    shape, dtype = _checked_tensor(tensor), element_type(tensor.data_type, tensor.name)
    _check_length(tensor.name, length, shape, dtype)
    return length + ALIGNMENT + (3 * prod(shape) if _bits(dtype) < 8 else 0)


def file_array(file: PlainFile, tensor: onnx.TensorProto, offset: int, length: int) -> np.ndarray:
    """Return the tensor stored at these bytes of a file; `file_bytes` has checked their number."""
    raw = _aligned_buffer(length)
    if not file.read_into(raw, offset):
        raise BadModelFile(f"is truncated inside of {tensor.name!r}")
    return _as_array(tensor, raw)


def _as_array(tensor: onnx.TensorProto, raw: np.ndarray) -> np.ndarray:
    """Return the value of a tensor with this raw data."""
    shape, dtype = _checked_tensor(tensor), element_type(tensor.data_type, tensor.name)
    if _bits(dtype) < 8:
        return _unpack(raw, shape, dtype)
    return raw.view(numpy_dtype(dtype)).reshape(shape)


def _bits(dtype: DType) -> int:
    """Return the number of bits that an element takes in a file."""
    if dtype == "float4_e2m1fn":
        return 4
    return SMALL_INTEGERS.get(dtype, 8 * numpy_dtype(dtype).itemsize)


def _unpack(raw: np.ndarray, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Unpack elements of less than a byte, lowest bits first, to a byte each."""
    bits = _bits(dtype)
    lanes = np.arange(0, 8, bits, dtype=np.uint8)
    each = (raw[:, None] >> lanes) & np.uint8((1 << bits) - 1)
    return _sign_extend(
        each.reshape(-1)[: prod(shape)].reshape(shape).view(numpy_dtype(dtype)), dtype
    )


def _check_length(name: str, length: int, shape: tuple[int, ...], dtype: DType) -> None:
    expected = -(-prod(shape) * _bits(dtype) // 8)
    if length != expected:
        raise BadModelFile(
            f"holds {name!r}: {dtype}{list(shape)} takes {expected} bytes and there are {length}"
        )


def _aligned_buffer(length: int) -> np.ndarray:
    room = np.empty(length + ALIGNMENT, np.uint8)
    skip = -room.ctypes.data % ALIGNMENT
    return room[skip : skip + length]


# External data.


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
            return _as_array(tensor, file.map_copy(first, length))
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
        return path, first, count, tensor.data_type, _checked_tensor(tensor)


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
