"""The header of a GGUF file: fields and tensors, each checked against the file's size.

The format (version 2 and 3, little-endian): `GGUF`, version, counts of tensors and fields; fields
of name, type and value; tensors of name, dims (nearest first), type and offset; padding; data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import isfinite, prod
from pathlib import Path
from typing import Any

import numpy as np

from explorer.errors import BadModelFile, DtypeError
from explorer.frontends.decoders.gguf_blocks import BLOCK_TYPES, UNREAD, BlockType, decode
from explorer.frontends.onnx.plain_file import PlainFile

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32  # bytes, where no field says
MAX_NAME = 1 << 16  # bytes
MAX_RANK = 4
STRING, ARRAY = 8, 9
NUMBERS = {  # by the format's number of the type
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor: its shape, outermost dim first, its element type, and its bytes in the file."""

    shape: tuple[int, ...]
    kind: BlockType
    data: np.ndarray = field(repr=False)  # uint8, mapped

    @property
    def array(self) -> np.ndarray:
        """The elements as float32: a view of the file if they are."""
        return decode(self.kind, self.data, self.shape)

    def rows(self, rows: slice) -> GgufTensor:
        """Return some of its rows."""
        shape = (rows.stop - rows.start, *self.shape[1:])
        size = len(self.data) // self.shape[0]
        return replace(self, shape=shape, data=self.data[rows.start * size : rows.stop * size])


@dataclass(frozen=True, slots=True)
class GgufFile:
    """Fields and tensors by name. Arrays of numbers are NumPy's; arrays of texts are tuples."""

    name: str
    fields: Mapping[str, Any]
    tensors: Mapping[str, GgufTensor]


def read_gguf(path: Path) -> GgufFile:
    """Read a file's header and map its tensors.

    Raises:
        BadModelFile, DtypeError: a size, a count, an offset, a name or a type is wrong.
    """
    with PlainFile(path) as file:
        data = file.map()
        cursor = _Cursor(data, path.name)
        if cursor.take(4) != MAGIC:
            raise BadModelFile(f"{path.name} is not a GGUF file", where=path.name)
        version = cursor.number("<u4")
        if version not in VERSIONS:
            raise BadModelFile(
                f"{path.name} has the version {version} of GGUF; {VERSIONS} are supported"
            )
        tensors = cursor.count("<u8", 24)
        fields: dict[str, Any] = {}
        for _ in range(cursor.count("<u8", 13)):
            name = cursor.text(MAX_NAME)
            if name in fields:
                raise BadModelFile(f"{path.name} has two fields {name!r}", where=name)
            fields[name] = cursor.value()
        places = _places(cursor, tensors)
        alignment = fields.get("general.alignment", ALIGNMENT)
        if type(alignment) is not int or not 1 <= alignment <= 1 << 20:
            raise BadModelFile(f"{path.name} aligns tensors to {alignment!r} bytes")
        begin = -(-cursor.at // alignment) * alignment
        body = data[begin:] if begin <= len(data) else data[:0]
        read = {n: _tensor(p, n, body, alignment, path.name) for n, p in places.items()}
        _check_apart(places, read, path.name)
        file.check_unchanged()
    return GgufFile(path.name, fields, read)


@dataclass(frozen=True, slots=True)
class _Place:
    shape: tuple[int, ...]
    kind: int
    offset: int


def _places(cursor: _Cursor, count: int) -> dict[str, _Place]:
    """Return the declared place of each tensor."""
    places: dict[str, _Place] = {}
    for _ in range(count):
        name = cursor.text(MAX_NAME)
        if name in places:
            raise BadModelFile(f"{cursor.where} has two tensors {name!r}", where=name)
        rank = cursor.number("<u4")
        if rank > MAX_RANK:
            raise BadModelFile(f"{cursor.where} declares {name!r} of rank {rank}", where=name)
        dims = tuple(cursor.number("<u8") for _ in range(rank))
        places[name] = _Place(dims[::-1], cursor.number("<u4"), cursor.number("<u8"))
    return places


def _tensor(p: _Place, name: str, body: np.ndarray, alignment: int, where: str) -> GgufTensor:
    """Return a tensor's mapped bytes; raise an error if they are not in the file."""
    kind = BLOCK_TYPES.get(p.kind)
    if kind is None:
        raise DtypeError(
            f"{where}: {name!r} has the type {UNREAD.get(p.kind, p.kind)} of ggml, which is not "
            "supported",
            where=name,
            expected=", ".join(k.name for k in BLOCK_TYPES.values()),
        )
    count = prod(p.shape)
    last = p.shape[-1] if p.shape else 1
    size = count // kind.elements * kind.size
    if last % kind.elements or p.offset % alignment or p.offset + size > len(body):
        raise BadModelFile(
            f"{where}: {name!r}, {list(p.shape)} of {kind.name} at byte {p.offset}, does not fit "
            f"in {len(body)} bytes of data",
            where=name,
        )
    return GgufTensor(p.shape, kind, body[p.offset : p.offset + size])


def _check_apart(
    places: Mapping[str, _Place], tensors: Mapping[str, GgufTensor], where: str
) -> None:
    """Raise BadModelFile if two tensors share bytes."""
    spans = sorted((p.offset, len(tensors[n].data), n) for n, p in places.items())
    for (first, size, before), (second, _, name) in pairwise(s for s in spans if s[1]):
        if first + size > second:
            raise BadModelFile(f"{where}: the tensors {before!r} and {name!r} overlap", where=name)


class _Cursor:
    """A position in the bytes of a header; reading past the end is a BadModelFile."""

    def __init__(self, data: np.ndarray, where: str) -> None:
        self.data, self.where, self.at = data, where, 0

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if count > len(self.data) - self.at:
            raise BadModelFile(
                f"{self.where} ends at byte {len(self.data)}, in the middle of its header",
                where=self.where,
            )
        self.at += count
        return self.data[self.at - count : self.at].tobytes()

    def number(self, dtype: str) -> Any:
        """Return the next number."""
        return np.frombuffer(self.take(np.dtype(dtype).itemsize), dtype)[0].item()

    def count(self, dtype: str, least: int) -> int:
        """Return a count of things that have `least` bytes each, if the file can hold them."""
        count = int(self.number(dtype))
        if count * least > len(self.data) - self.at:
            raise BadModelFile(
                f"{self.where} promises {count} entries, which do not fit in its "
                f"{len(self.data)} bytes",
                where=self.where,
            )
        return count

    def text(self, most: int) -> str:
        """Return the next text of at most so many bytes."""
        length = self.count("<u8", 1)
        if length > most:
            raise BadModelFile(f"{self.where} has a name of {length} bytes", where=self.where)
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise BadModelFile(
                f"{self.where} has a text at byte {self.at} that is not UTF-8", where=self.where
            ) from None

    def value(self) -> Any:
        """Return the next typed value of a field."""
        kind = self.number("<u4")
        if kind != ARRAY:
            return self._item(kind)
        kind = self.number("<u4")
        if kind == STRING:
            return tuple(self.text(len(self.data)) for _ in range(self.count("<u8", 8)))
        dtype = self._dtype(kind)
        count = self.count("<u8", np.dtype(dtype).itemsize)
        return np.frombuffer(self.take(count * np.dtype(dtype).itemsize), dtype)

    def _item(self, kind: int) -> Any:
        if kind == STRING:
            return self.text(len(self.data))
        value = self.number(self._dtype(kind))
        if isinstance(value, float) and not isfinite(value):
            raise BadModelFile(f"{self.where} has a field that is {value}", where=self.where)
        return value

    def _dtype(self, kind: int) -> str:
        if kind not in NUMBERS:
            raise BadModelFile(
                f"{self.where} has a field of the unknown type {kind} at byte {self.at}",
                where=self.where,
            )
        return NUMBERS[kind]
