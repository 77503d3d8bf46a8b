"""The protobuf wire format, as far as locating a field's bytes needs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.errors import BadModelFile
from explorer.frontends.files.plain_file import PlainFile

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
        tag, used = varint(head, 0, start)
        number, kind = tag >> 3, tag & 7
        content = at + used
        if kind == VARINT:
            at += varint(head, used, start)[1]
        elif kind == LENGTH:
            length, used = varint(head, used, start)
            content = at + used
            at = content + length
        elif kind in _FIXED:
            at = content + _FIXED[kind]
        else:
            raise BadModelFile(f"is not an ONNX file: wire type {kind} at byte {start}")
        if at > last or number == 0:
            raise BadModelFile(f"is truncated at byte {last}, or is not an ONNX file")
        yield Field(number, kind, start, content, at)


def varint(data: bytes, at: int, begin: int) -> tuple[int, int]:
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
    return _varint((number << 3) | LENGTH) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
