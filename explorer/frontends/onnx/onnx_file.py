"""Reading of an ONNX file: large tensors bypass the parser and are read once, into aligned arrays.

The file is untrusted: lengths, ranks and sizes are checked before memory is allocated. Parts that
are not needed (comments, unknown fields) are skipped. The memory of the parsed message is estimated
from its bytes alone: two bytes of a file can become a message of a hundred bytes, or a number of
eight. Numbers and short fields are counted at their worst case, the long strings and bytes of
ordinary models at their length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from explorer.errors import BadModelFile, TooLarge, did_you_mean
from explorer.frontends.onnx.plain_file import PlainFile
from explorer.frontends.onnx.tensors import ExternalData, file_array, file_bytes, small_array
from explorer.process.budget import budget, check_room

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


# Memory of a parsed message.


SMALL_TIMES = 64  # an empty node is two bytes in a file, and more than a hundred in memory
LONG_BYTES = 4096  # a message from this length on is examined field by field
MOST_FIELDS = 1 << 21  # of one file; the largest models have a tenth of it
DEEPEST = 100  # nesting of messages, the parser's own limit

# Nested messages that may be long, and long fields with the number of copies of their bytes in
# memory: in the parsed message, and as an array.
INNER = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
}
LEAVES = {
    "node": {6: 2},
    "attribute": {4: 3, 7: 12, 8: 24},
    "tensor": {4: 16, 9: 4, 10: 8, 12: 2},
}


class MessageWeight:
    """The memory estimate of one file; raises TooLarge once it exceeds the budget."""

    def __init__(self, file: PlainFile) -> None:
        """Start at 0 bytes."""
        self._file, self._bytes, self._fields = file, 0, 0
        self._most = budget()

    def skip(self) -> None:
        """Count a field that is not parsed; their number is limited too."""
        self._fields += 1
        if self._fields > MOST_FIELDS:
            raise TooLarge(
                f"{self._file.name} holds more than {MOST_FIELDS} fields",
                where=self._file.name,
                expected=f"at most {MOST_FIELDS}",
                try_="a model without comments, metadata and fields that ONNX does not know",
            )

    def add(self, message: str, field: Field, depth: int = 0) -> None:
        """Count a field of a message of this kind that will be parsed."""
        self.skip()
        length = field.last - field.start
        inner = INNER.get(message, {}).get(field.number)
        if field.kind == LENGTH and length >= LONG_BYTES and inner and depth < DEEPEST:
            for part in fields(self._file, field.first, field.last):
                self.add(inner, part, depth + 1)
            return
        leaf = LEAVES.get(message, {}).get(field.number) if length >= LONG_BYTES else None
        self._bytes += length * (leaf or SMALL_TIMES)
        if self._bytes > self._most:
            what = f"{self._file.name}, without its large tensors,"
            check_room(self._bytes, what, self._file.name)


# Protobuf's wire format, as far as locating a field's bytes needs it.


LONGEST_HEAD = 20  # of a field: its tag and its length, 10 bytes each at most
_FIXED = {1: 8, 5: 4}  # bytes of wire types with a fixed length
VARINT, LENGTH = 0, 2


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message: number, wire type, start, and the range of its content."""

    number: int
    kind: int
    start: int
    first: int
    last: int


def fields(file: PlainFile, first: int, last: int) -> Iterator[Field]:
    """Yield the fields of the message in `first:last`; raise BadModelFile if it is truncated."""
    at = first
    while at < last:
        start, head = at, file.read(at, min(at + LONGEST_HEAD, last))
        tag, used = _read_varint(head, 0, start)
        number, kind = tag >> 3, tag & 7
        content = at + used
        if kind == VARINT:
            at += _read_varint(head, used, start)[1]
        elif kind == LENGTH:
            length, used = _read_varint(head, used, start)
            content = at + used
            at = content + length
        elif kind in _FIXED:
            at = content + _FIXED[kind]
        else:
            raise BadModelFile(f"is not an ONNX file: wire type {kind} at byte {start}")
        if at > last or number == 0:
            raise BadModelFile(f"is truncated at byte {last}, or is not an ONNX file")
        yield Field(number, kind, start, content, at)


def _read_varint(data: bytes, at: int, begin: int) -> tuple[int, int]:
    """Return an integer in base 128 and its end; `begin` is the position of `data` in the file."""
    value = shift = 0
    for byte in data[at : at + 10]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise BadModelFile(f"is truncated at byte {begin + at}, or is not an ONNX file")


def encode_field(number: int, content: bytes) -> bytes:
    """Return an encoded field with a length."""
    return _encode_varint((number << 3) | LENGTH) + _encode_varint(len(content)) + content


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
