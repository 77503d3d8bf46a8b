"""Reading of an ONNX file: large tensors bypass the parser and are read once, into aligned arrays.

The file is untrusted: lengths, ranks and sizes are checked before memory is allocated. Parts that
are not needed (comments, unknown fields) are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from explorer.budget import check_room
from explorer.errors import BadModelFile, did_you_mean
from explorer.frontends.files.external_data import ExternalData
from explorer.frontends.files.message_weight import MessageWeight
from explorer.frontends.files.plain_file import PlainFile
from explorer.frontends.files.tensors import file_array, file_bytes, small_array
from explorer.frontends.files.wire import LENGTH, Field, encode_field, fields

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9  # field numbers of ModelProto, GraphProto, TensorProto
MODEL_FIELDS = frozenset({1, 2, 3, 4, 5, GRAPH, 8, 25})  # no comments, training or devices
GRAPH_FIELDS = frozenset({1, 2, INITIALIZER, 11, 12, 13, 15})
TENSOR_FIELDS = frozenset({1, 2, 4, 5, 6, 7, 8, 10, 11, 13, 14})
LARGE_BYTES = 1024  # a tensor from this size on is read straight into its array

Part = tuple[int, int]  # offset and length in the file


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """The parsed model, the values of its initialisers, and the parsed bytes."""

    model: onnx.ModelProto
    initializers: dict[str, np.ndarray]
    head: bytes


MOST_NEARBY = 1000  # files of a folder that are compared with a misspelt name; chosen


def read_onnx(path: Path) -> OnnxFile:
    """Read a model.

    Raises:
        BadModelFile: one sentence says what is wrong with the file.
        TooLarge: it would take more memory than there is.
    """
    try:
        with PlainFile(path) as file:
            return _read(path, file)
    except BadModelFile as error:
        raise BadModelFile(f"{path.name} {error.sentence}", where=path) from None
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        near = did_you_mean(path.name, _nearby_models(path)) if is_missing else ""
        raise BadModelFile(f"{path} cannot be read: {error.strerror}{near}", where=path) from error
    except ValueError as error:  # a NUL in the path
        raise BadModelFile(f"{path} cannot be read: {error}", where=path) from error


def _nearby_models(path: Path) -> list[str]:
    """Return the models in the folder of a path that does not exist."""
    try:
        return [p.name for p in islice(path.parent.glob("*.onnx"), MOST_NEARBY)]
    except OSError:
        return []


def _read(path: Path, file: PlainFile) -> OnnxFile:
    if file.size == 0:
        raise BadModelFile("is empty")
    head, parts = _without_large_tensors(file)
    model = _parse(head)
    with ExternalData(path.parent) as external:
        initializers = _initializers(file, external, model, parts)
        external.check_unchanged()
    file.check_unchanged()
    del model.graph.initializer[:]
    return OnnxFile(model, initializers, head)


def _initializers(
    file: PlainFile, external: ExternalData, model: onnx.ModelProto, parts: dict[int, Part]
) -> dict[str, np.ndarray]:
    """Return the value of each initialiser; raise TooLarge before their sum exceeds memory."""
    arrays: dict[str, np.ndarray] = {}
    needed_bytes = 0
    for index, tensor in enumerate(model.graph.initializer):
        if not tensor.name or tensor.name in arrays:
            raise BadModelFile(f"has an initializer without a name of its own: {tensor.name!r}")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            needed_bytes += external.new_bytes(tensor)
        elif index in parts:
            needed_bytes += file_bytes(tensor, parts[index][1])
        check_room(
            needed_bytes, f"{file.name}, read up to its tensor {tensor.name!r},", tensor.name
        )
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            arrays[tensor.name] = external.array(tensor)
        elif index in parts:
            arrays[tensor.name] = file_array(file, tensor, *parts[index])
        else:
            arrays[tensor.name] = small_array(tensor)
    return arrays


def _parse(head: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(head)
    except DecodeError as error:
        raise BadModelFile(f"is not an ONNX file: {error}") from error
    if not model.HasField("graph") or not model.opset_import:
        raise BadModelFile("is not an ONNX file: it holds no graph, or names no operator set")
    if model.graph.sparse_initializer:
        raise BadModelFile("holds sparse initializers, which have no kernels")
    return model


def _without_large_tensors(file: PlainFile) -> tuple[bytes, dict[int, Part]]:
    """Return the model's bytes without large initialisers, and the positions of these."""
    out: list[bytes] = []
    parts: dict[int, Part] = {}
    graphs, weight = 0, MessageWeight(file)
    for field in fields(file, 0, file.size):
        if field.number == GRAPH and field.kind == LENGTH:
            graphs += 1
            out.append(encode_field(GRAPH, _graph(file, field, parts, weight)))
        elif field.number in MODEL_FIELDS:
            weight.add("model", field)
            out.append(file.read(field.start, field.last))
        else:
            weight.skip()
    if graphs != 1:
        raise BadModelFile(f"is not an ONNX file: it holds {graphs} graphs")
    return b"".join(out), parts


def _graph(file: PlainFile, graph: Field, parts: dict[int, Part], weight: MessageWeight) -> bytes:
    out: list[bytes] = []
    index = 0
    for field in fields(file, graph.first, graph.last):
        if field.number == INITIALIZER and field.kind == LENGTH:
            if field.last - field.first >= LARGE_BYTES:
                out.append(_tensor(file, field, index, parts, weight))
            else:
                weight.add("graph", field)
                out.append(file.read(field.start, field.last))
            index += 1
        elif field.number in GRAPH_FIELDS:
            weight.add("graph", field)
            out.append(file.read(field.start, field.last))
        else:
            weight.skip()
    return b"".join(out)


def _tensor(
    file: PlainFile, tensor: Field, index: int, parts: dict[int, Part], weight: MessageWeight
) -> bytes:
    out: list[bytes] = []
    for field in fields(file, tensor.first, tensor.last):
        if field.number == RAW_DATA and field.kind == LENGTH:
            parts[index] = (field.first, field.last - field.first)
        elif field.number in TENSOR_FIELDS:
            weight.add("tensor", field)
            out.append(file.read(field.start, field.last))
        else:
            weight.skip()
    return encode_field(INITIALIZER, b"".join(out))
