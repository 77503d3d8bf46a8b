"""The protobuf wire format, as far as finding a field's bytes in a file needs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.errors import BadModelFile

Bytes = memoryview
_FIXED = {1: 8, 5: 4}  # bytes of wire types with a fixed length
VARINT, LENGTH = 0, 2


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message: number, wire type, start, and where its content lies."""

    number: int
    kind: int
    start: int
    first: int
    last: int


def fields(data: Bytes, first: int, last: int) -> Iterator[Field]:
    """The fields of the message in `data[first:last]`; BadModelFile where it breaks off."""
    at = first
    while at < last:
        start = at
        tag, at = varint(data, at, last)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            content = at
            _, at = varint(data, at, last)
        elif kind == LENGTH:
            length, at = varint(data, at, last)
            content, at = at, at + length
        elif kind in _FIXED:
            content, at = at, at + _FIXED[kind]
        else:
            raise BadModelFile(f"is no ONNX file: wire type {kind} at byte {start}")
        if at > last or number == 0:
            raise BadModelFile(f"breaks off at byte {last}, or is no ONNX file")
        yield Field(number, kind, start, content, at)


def varint(data: Bytes, at: int, last: int) -> tuple[int, int]:
    """An integer in base 128 and where it ends."""
    value = shift = 0
    while at < last and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise BadModelFile(f"breaks off at byte {at}, or is no ONNX file")


def wrapped(number: int, content: bytes) -> bytes:
    """A field with a length, written."""
    return _varint((number << 3) | LENGTH) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
