"""The constants that passes made of a model's own, each under its content: compilations of one
model share them. They are read when the first of them is asked for: planning needs none.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from explorer import cache
from explorer.allowance import cores
from explorer.cached_property import cached_property
from explorer.errors import CacheError
from explorer.ir.dtypes import ITEM_BYTES, dtype_of, numpy_dtype
from explorer.ir.program import Constant
from explorer.ir.types import Tensor

SMALL_BYTES = 1 << 12  # constants up to here stand beside the program
LARGEST_BYTES = 256 << 20  # of all of one program: a share of the folder's bound
MANY_BYTES = 1 << 20  # from here on several threads read
THREADS = 4
Remake: TypeAlias = Callable[[], Mapping[str, Constant]]
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Row:
    """What an entry says of a constant; `small` is what it holds, where it lies beside."""

    name: str
    digest: str
    dtype: str
    shape: tuple[int, ...]
    small: str | None

    @property
    def key(self) -> str:
        """Under which its bytes are kept."""
        return cache.content_key("constant", self.digest)

    @property
    def bytes(self) -> int:
        """How many there are."""
        return prod(self.shape) * ITEM_BYTES[self.dtype]


class Batch:
    """The constants of one program. What is not on disk any more is made again: `remake` runs the
    passes and gives the program's constants.
    """

    def __init__(self, rows: Sequence[Row], remake: Remake) -> None:
        self.rows, self.remake = rows, remake

    @property
    def is_there(self) -> bool:
        """Whether each has an entry, intact or not."""
        return all(row.small is not None or cache.has(row.key) for row in self.rows)

    @cached_property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """Their values."""
        read = _each(self._read, self.rows, sum(row.bytes for row in self.rows))
        if all(array is not None for array in read):
            return tuple(array for array in read if array is not None)
        made = self.remake()
        again = [made[row.name] for row in self.rows if row.name in made]
        if [c.digest for c in again] != [row.digest for row in self.rows]:
            raise CacheError(
                "constants that were kept are gone, and the passes make others now",
                where=cache.disk().folder,
                try_="ironworks cache clear",
            )
        return tuple(c.array for c in again)

    def _read(self, row: Row) -> np.ndarray | None:
        data = cache.get(row.key) if row.small is None else b64decode(row.small)
        if data is None or len(data) != row.bytes:
            return None
        element = numpy_dtype(row.dtype)
        array = np.frombuffer(data, element) if data else np.empty(0, element)
        return array.reshape(row.shape)


class KeptConstant(Constant):
    """A constant whose value is read when it is asked for; what it is was kept beside it."""

    def __init__(self, batch: Batch, number: int) -> None:
        self._batch, self._number = batch, number
        self._layouts = WeakValueDictionary()

    @cached_property
    def array(self) -> np.ndarray:
        """The value; read-only."""
        found = np.ascontiguousarray(self._batch.arrays[self._number])
        found = found.reshape(self._row.shape)
        found.flags.writeable = False
        return found

    @property
    def _row(self) -> Row:
        return self._batch.rows[self._number]

    @cached_property
    def digest(self) -> str:
        """As it was when it was kept."""
        return self._row.digest

    @property
    def type(self) -> Tensor:
        """The annotation of the value."""
        return Tensor(self._row.shape, self._row.dtype)


def bytes_of(constants: Iterable[Constant]) -> int:
    """How many they hold."""
    return sum(c.array.nbytes for c in constants)


def kept(constants: Mapping[str, Constant], store: cache.DiskStore) -> list[dict[str, Any]] | None:
    """After: every constant is in the store, or stands in its row. None where there are too many
    bytes of them, or nobody can write them.
    """
    if bytes_of(constants.values()) > LARGEST_BYTES or any(
        dtype_of(c.array) not in ITEM_BYTES for c in constants.values()
    ):
        return None
    rows = [_put(name, constant, store) for name, constant in constants.items()]
    return None if any(row is None for row in rows) else [asdict(row) for row in rows if row]


def row_of(told: Mapping[str, Any]) -> Row:
    """A row as `kept` gave it."""
    return Row(**{**told, "shape": tuple(told["shape"])})


def _put(name: str, constant: Constant, store: cache.DiskStore) -> Row | None:
    array = constant.array
    small = b64encode(array.tobytes()).decode() if array.nbytes <= SMALL_BYTES else None
    row = Row(name, constant.digest, dtype_of(array), array.shape, small)
    if small is not None or store.has(row.key):
        return row
    payload = array.reshape(-1).view(np.uint8).data
    return row if store.put(row.key, payload, "constant") else None


def _each(do: Callable[[T], R], items: Sequence[T], size: int) -> list[R]:
    """Hashing lets other threads run, and takes most of the time."""
    threads = min(THREADS, cores(), len(items))
    if size < MANY_BYTES or threads < 2:
        return [do(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(do, items))
