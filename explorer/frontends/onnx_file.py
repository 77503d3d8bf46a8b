"""An ONNX file, read: large tensors are not parsed but read once, into aligned arrays.

Nothing in the file is trusted: lengths, ranks and sizes are checked, and external data stays in
the model's folder.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from io import BufferedReader
from math import prod
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import numpy_helper

from explorer.errors import BadModelFile
from explorer.frontends.wire import LENGTH, Field, fields, wrapped
from explorer.ir.dtypes import (
    HOST_DTYPES,
    ITEM_BYTES,
    SMALL_INTEGERS,
    DType,
    computed,
    numpy_dtype,
)

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9  # field numbers of ModelProto, GraphProto, TensorProto
LARGE_BYTES = 1024  # a tensor from this size on is read straight into its array
MAX_RANK = 16
MAX_ELEMENTS = 1 << 40
ALIGNMENT = 64
MAPPED_BYTES = 1 << 20  # external data from this size on stays in its file

Part = tuple[int, int]  # offset and length in the file


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """The parsed model, the values of its initialisers, and the bytes that were parsed."""

    model: onnx.ModelProto
    initializers: dict[str, np.ndarray]
    head: bytes


def read_onnx(path: Path) -> OnnxFile:
    """Read a model; BadModelFile says in one sentence what is wrong with the file."""
    try:
        with path.open("rb") as file:
            return _read(path, file)
    except BadModelFile as error:
        raise BadModelFile(f"{path.name} {error.sentence}", where=path) from None
    except OSError as error:
        raise BadModelFile(f"{path} cannot be read: {error.strerror}", where=path) from error


def _read(path: Path, file: BufferedReader) -> OnnxFile:
    size = os.fstat(file.fileno()).st_size
    if size == 0:
        raise BadModelFile("is empty")
    # not closed by hand: an error's traceback still holds slices of it
    data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    head, parts = _without_large_tensors(data, size)
    del data
    model = _parse(head)
    found = {}
    for index, tensor in enumerate(model.graph.initializer):
        if not tensor.name or tensor.name in found:
            raise BadModelFile(f"has an initializer without a name of its own: {tensor.name!r}")
        found[tensor.name] = _array(path, file, tensor, parts.get(index))
    del model.graph.initializer[:]
    return OnnxFile(model, found, head)


def _parse(head: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(head)
    except DecodeError as error:
        raise BadModelFile(f"is no ONNX file: {error}") from error
    if not model.HasField("graph") or not model.opset_import:
        raise BadModelFile("is no ONNX file: it holds no graph, or names no operator set")
    if model.graph.sparse_initializer:
        raise BadModelFile("holds sparse initializers, which have no kernels")
    return model


def _without_large_tensors(data: memoryview, size: int) -> tuple[bytes, dict[int, Part]]:
    """The model's bytes without the raw data of large initializers, and where that lies."""
    out: list[bytes] = []
    parts: dict[int, Part] = {}
    graphs = 0
    for field in fields(data, 0, size):
        if field.number == GRAPH and field.kind == LENGTH:
            graphs += 1
            out.append(wrapped(GRAPH, _graph(data, field, parts)))
        else:
            out.append(bytes(data[field.start : field.last]))
    if graphs != 1:
        raise BadModelFile(f"is no ONNX file: it holds {graphs} graphs")
    return b"".join(out), parts


def _graph(data: memoryview, graph: Field, parts: dict[int, Part]) -> bytes:
    out: list[bytes] = []
    index = 0
    for field in fields(data, graph.first, graph.last):
        if field.number == INITIALIZER and field.kind == LENGTH:
            large = field.last - field.first >= LARGE_BYTES
            raw = data[field.start : field.last]
            out.append(_tensor(data, field, index, parts) if large else bytes(raw))
            index += 1
        else:
            out.append(bytes(data[field.start : field.last]))
    return b"".join(out)


def _tensor(data: memoryview, tensor: Field, index: int, parts: dict[int, Part]) -> bytes:
    out: list[bytes] = []
    for field in fields(data, tensor.first, tensor.last):
        if field.number == RAW_DATA and field.kind == LENGTH:
            parts[index] = (field.first, field.last - field.first)
        else:
            out.append(bytes(data[field.start : field.last]))
    return wrapped(INITIALIZER, b"".join(out))


# Tensors.


def element_type(data_type: int, name: str) -> DType:
    """The dtype of an ONNX element type; BadModelFile where nothing computes with it."""
    try:
        found = onnx.helper.tensor_dtype_to_np_dtype(data_type)
    except KeyError:
        found = np.dtype(np.void)
    dtype = "string" if data_type == onnx.TensorProto.STRING else str(found.name)
    if dtype not in ITEM_BYTES and dtype not in HOST_DTYPES:
        kinds = {v: k for k, v in onnx.TensorProto.DataType.items()}
        kind = kinds.get(data_type, str(data_type))
        raise BadModelFile(f"holds {name!r} with elements of type {kind}, which has no kernels")
    return dtype


def checked_shape(dims: Sequence[int], name: str) -> tuple[int, ...]:
    """The dims of a tensor; BadModelFile where they are negative, or too many, or too large."""
    shape = tuple(int(d) for d in dims)
    if len(shape) > MAX_RANK or any(d < 0 for d in shape) or prod(shape) > MAX_ELEMENTS:
        raise BadModelFile(f"holds {name!r} with the impossible shape {list(shape)[:MAX_RANK]}")
    return shape


def small_array(tensor: onnx.TensorProto) -> np.ndarray:
    """The value of a tensor that stands in the graph itself."""
    dtype = element_type(tensor.data_type, tensor.name)
    shape = checked_shape(tensor.dims, tensor.name)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise BadModelFile(f"keeps {tensor.name!r}, which is no initializer, in another file")
    if tensor.HasField("raw_data"):
        if dtype == "string":
            raise BadModelFile(f"holds {tensor.name!r}, whose strings are raw data")
        _check_length(tensor.name, len(tensor.raw_data), shape, dtype)
    try:
        array: np.ndarray = numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as error:  # bytes that are no text are a ValueError
        raise BadModelFile(f"holds {tensor.name!r}, whose data does not fit its shape") from error
    if array.shape != shape:
        raise BadModelFile(f"holds {tensor.name!r}, whose data does not fit its shape")
    return _normal(array, dtype)


def _normal(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Integers of less than a byte as bytes with their sign, as every kernel leaves them."""
    if dtype not in SMALL_INTEGERS:
        return array
    spare = 8 - SMALL_INTEGERS[dtype]
    bits = array.view(computed(dtype))
    return np.asarray((bits << spare) >> spare, bits.dtype).view(numpy_dtype(dtype))


def _array(
    path: Path, file: BufferedReader, tensor: onnx.TensorProto, part: Part | None
) -> np.ndarray:
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _external(path, tensor)
    if part is None:
        return small_array(tensor)
    return _filled(file, tensor, *part)


def _filled(file: BufferedReader, tensor: onnx.TensorProto, offset: int, length: int) -> np.ndarray:
    dtype = element_type(tensor.data_type, tensor.name)
    shape = checked_shape(tensor.dims, tensor.name)
    if dtype == "string":
        raise BadModelFile(f"holds {tensor.name!r}, whose strings are raw data")
    _check_length(tensor.name, length, shape, dtype)
    raw = _aligned(length)
    file.seek(offset)
    if file.readinto(raw.data) != length:
        raise BadModelFile(f"breaks off inside of {tensor.name!r}")
    if _bits(dtype) < 8:
        return _unpacked(raw, shape, dtype)
    return raw.view(numpy_dtype(dtype)).reshape(shape)


def _bits(dtype: DType) -> int:
    """How many bits an element takes in a file."""
    if dtype == "float4_e2m1fn":
        return 4
    return SMALL_INTEGERS.get(dtype, 8 * numpy_dtype(dtype).itemsize)


def _unpacked(raw: np.ndarray, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Elements of less than a byte, several in one with the first one lowest, as a byte each."""
    bits = _bits(dtype)
    lanes = np.arange(0, 8, bits, dtype=np.uint8)
    each = (raw[:, None] >> lanes) & np.uint8((1 << bits) - 1)
    return _normal(each.reshape(-1)[: prod(shape)].reshape(shape).view(numpy_dtype(dtype)), dtype)


def _check_length(name: str, length: int, shape: tuple[int, ...], dtype: DType) -> None:
    wanted = -(-prod(shape) * _bits(dtype) // 8)
    if length != wanted:
        raise BadModelFile(
            f"holds {name!r}: {dtype}{list(shape)} takes {wanted} bytes and there are {length}"
        )


def _aligned(length: int) -> np.ndarray:
    room = np.empty(length + ALIGNMENT, np.uint8)
    skip = -room.ctypes.data % ALIGNMENT
    return room[skip : skip + length]


# External data.


def _external(path: Path, tensor: onnx.TensorProto) -> np.ndarray:
    entries = {e.key: e.value for e in tensor.external_data}
    where = _inside(path.parent, entries.get("location", ""), tensor.name)
    try:
        offset, length = (int(entries[k]) if k in entries else None for k in ("offset", "length"))
    except ValueError as error:
        raise BadModelFile(f"says of {tensor.name!r} an offset that is no number") from error
    with where.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = offset or 0
        count = size - first if length is None else length
        if first < 0 or count < 0 or first + count > size:
            raise BadModelFile(f"says that {tensor.name!r} lies outside of {where.name}")
        if count >= MAPPED_BYTES and first % ALIGNMENT == 0:
            return _mapped(where, tensor, first, count)
        return _filled(file, tensor, first, count)


def _mapped(where: Path, tensor: onnx.TensorProto, offset: int, length: int) -> np.ndarray:
    """A tensor that stays in its file, of which what is read becomes memory."""
    dtype = element_type(tensor.data_type, tensor.name)
    shape = checked_shape(tensor.dims, tensor.name)
    if dtype == "string":
        raise BadModelFile(f"holds {tensor.name!r}, whose strings are raw data")
    _check_length(tensor.name, length, shape, dtype)
    raw = np.asarray(np.memmap(where, np.uint8, "r", offset, (length,)))
    if _bits(dtype) < 8:
        return _unpacked(raw, shape, dtype)
    return raw.view(numpy_dtype(dtype)).reshape(shape)


def _inside(folder: Path, location: str, name: str) -> Path:
    """The file of external data, which must be a plain file in the model's folder."""
    root = folder.resolve()
    found = (root / location).resolve()
    if not location or Path(location).is_absolute() or not found.is_relative_to(root):
        raise BadModelFile(f"wants {name!r} from {location!r}, outside of the model's folder")
    if not found.is_file():
        raise BadModelFile(f"wants {name!r} from {location!r}, which is no file")
    return found
