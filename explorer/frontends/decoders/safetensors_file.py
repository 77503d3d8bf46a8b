"""Tensors of a safetensors file, mapped in place after every size and offset was checked.

The format: the length of the header (8 bytes, little-endian), a JSON object of tensors with dtype,
shape and first and last byte, then the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import prod
from pathlib import Path

import numpy as np

from explorer.errors import BadModelFile, DtypeError
from explorer.frontends.decoders.checked_json import Fields, parse_json
from explorer.frontends.onnx.plain_file import PlainFile

LENGTH_BYTES = 8
MAX_HEADER = 100_000_000  # bytes; the format's own limit
MAX_RANK = 8
METADATA = "__metadata__"
DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}  # bfloat16 as its bits


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a file by name; float32 and float16 as such, bfloat16 as uint16 bits.

    They are views of the mapped file: a tensor takes memory once it is read, and the system may
    drop it. The file must not be changed while they are used.

    Raises:
        BadModelFile: a size, an offset, a name or a dtype is wrong.
    """
    with PlainFile(path) as file:
        first = file.read(0, LENGTH_BYTES)
        length = int.from_bytes(first, "little")
        if len(first) < LENGTH_BYTES or length > min(MAX_HEADER, file.size - LENGTH_BYTES):
            raise BadModelFile(
                f"{path.name} is not a safetensors file: its header does not fit in it",
                where=path.name,
            )
        begin = LENGTH_BYTES + length
        header = parse_json(file.read(LENGTH_BYTES, begin), path.name)
        places = _places(header, path.name, file.size - begin)
        data = file.map()[begin:]
        file.check_unchanged()
    return {n: data[a:b].view(dtype).reshape(shape) for n, (dtype, shape, a, b) in places.items()}


Place = tuple[str, tuple[int, ...], int, int]  # dtype, shape, first byte, end


def _places(header: Mapping[str, object], where: str, size: int) -> dict[str, Place]:
    """Return the checked place of each tensor in the data."""
    places: dict[str, Place] = {}
    for name in header:
        if name != METADATA:
            places[name] = _place(Fields(header, where).inner(name), name, size)
    spans = sorted((a, b, name) for name, (_, _, a, b) in places.items() if b > a)
    for (_, end, before), (begin, _, name) in pairwise(spans):
        if begin < end:
            raise BadModelFile(f"{where}: the tensors {before!r} and {name!r} overlap", where=name)
    return places


def _place(fields: Fields, name: str, size: int) -> Place:
    dtype = fields.word("dtype")
    if dtype not in DTYPES:
        raise DtypeError(
            f"{fields.where} has the dtype {dtype!r}, which is no dtype of weights",
            where=name,
            expected=", ".join(DTYPES),
        )

    def natural(n: object) -> bool:
        return type(n) is int and 0 <= n < 1 << 48

    shape = tuple(fields.items("shape", natural, "whole numbers"))
    first, end = fields.items("data_offsets", natural, "whole numbers", 2)
    count = prod(shape) * np.dtype(DTYPES[dtype]).itemsize
    if len(shape) > MAX_RANK or not first <= end <= size or end - first != count:
        raise BadModelFile(
            f"{fields.where}: bytes {first} to {end} of {size} do not hold "
            f"{list(shape)[:MAX_RANK]} of {dtype}",
            where=name,
        )
    return DTYPES[dtype], shape, first, end
