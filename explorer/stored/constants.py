"""The constants that passes made of a model's own, each under its content: compilations of one
model share them.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import TypeAlias, TypeVar

import numpy as np

from explorer import cache
from explorer.allowance import cores
from explorer.ir.dtypes import dtype_of, numpy_dtype
from explorer.ir.program import Constant

SMALL_BYTES = 1 << 12  # constants up to here stand beside the program
LARGEST_BYTES = 256 << 20  # of all of one program: a share of the folder's bound
MANY_BYTES = 1 << 20  # from here on several threads read
THREADS = 4
Row: TypeAlias = list[object]  # digest, dtype, shape, and the bytes of a small one as text
T = TypeVar("T")
R = TypeVar("R")


def kept(constants: Sequence[Constant]) -> list[Row] | None:
    """After: every constant is on disk, or stands in its row. None where there are too many bytes
    of them, or nobody can write them.
    """
    size = sum(c.array.nbytes for c in constants)
    if size > LARGEST_BYTES or any(c.array.dtype.hasobject for c in constants):
        return None
    rows = _each(_row, constants, size)
    return None if any(row is None for row in rows) else [row for row in rows if row is not None]


def found(rows: Iterable[Row]) -> list[Constant] | None:
    """The constants of these rows; None where one is not there any more."""
    given = list(rows)
    size = sum(_bytes(row) for row in given)
    made = _each(_constant, given, size)
    return None if any(c is None for c in made) else [c for c in made if c is not None]


def _row(constant: Constant) -> Row | None:
    array = constant.array
    row: Row = [constant.digest, dtype_of(array), list(array.shape)]
    if array.nbytes <= SMALL_BYTES:
        return [*row, b64encode(array.tobytes()).decode()]
    key = _key(constant.digest)
    if cache.disk().has(key) or cache.put(key, array.tobytes()):
        return row
    return None


def _constant(row: Row) -> Constant | None:
    digest, dtype, shape, *small = row
    data = b64decode(str(small[0])) if small else cache.get(_key(str(digest)))
    if data is None:
        return None
    element = numpy_dtype(str(dtype))
    array = np.frombuffer(data, element) if data else np.empty(0, element)
    return Constant(array.reshape(shape))  # type: ignore[call-overload]


def _bytes(row: Row) -> int:
    _, dtype, shape, *_ = row
    assert isinstance(shape, list), "a shape is a list of numbers"
    return prod(shape) * numpy_dtype(str(dtype)).itemsize


def _key(digest: str) -> str:
    return cache.content_key("constant", digest)


def _each(do: Callable[[T], R], items: Sequence[T], size: int) -> list[R]:
    """Hashing lets other threads run, and takes most of the time."""
    threads = min(THREADS, cores(), len(items))
    if size < MANY_BYTES or threads < 2:
        return [do(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(do, items))
