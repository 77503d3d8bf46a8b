"""Constants that passes derived from a model's own, each stored under its content.

Compilations of one model share them. They are read when the first of them is used: planning needs
none.
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
from explorer.cached_property import cached_property
from explorer.errors import CacheError
from explorer.ir.dtypes import ITEM_BYTES, dtype_of, numpy_dtype
from explorer.ir.program import Constant
from explorer.ir.types import Tensor
from explorer.process.allowance import cores

SMALL_BYTES = 1 << 12  # constants up to here stand beside the program
LARGEST_BYTES = 256 << 20  # of all of one program: a share of the folder's bound
MANY_BYTES = 1 << 20  # from here on several threads read
THREADS = 4
_in_memory: WeakValueDictionary[tuple[str, str, tuple[int, ...]], np.ndarray] = (
    WeakValueDictionary()
)  # values that were read and are in use, so that the plans of a model share them
Remake: TypeAlias = Callable[[], Mapping[str, Constant]]
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ConstantRow:
    """Description of a constant in an entry; `small` is its value if that is stored inline."""

    name: str
    digest: str
    dtype: str
    shape: tuple[int, ...]
    small: str | None

    @property
    def key(self) -> str:
        """The key of its bytes."""
        return cache.content_key("constant", self.digest)

    @property
    def bytes(self) -> int:
        """Its size in bytes."""
        return prod(self.shape) * ITEM_BYTES[self.dtype]


class Batch:
    """Constants of one program.

    If some are no longer on disk, `remake` runs the passes again and returns the program's
    constants.
    """

    def __init__(self, rows: Sequence[ConstantRow], remake: Remake) -> None:
        """Describe the constants of one program."""
        self.rows, self.remake = rows, remake

    @property
    def is_there(self) -> bool:
        """True if each has an entry, intact or not."""
        return all(row.small is not None or cache.has(row.key) for row in self.rows)

    @cached_property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The values, read from disk or made again."""
        read = _each(self._read, self.rows, sum(row.bytes for row in self.rows))
        if all(array is not None for array in read):
            return tuple(array for array in read if array is not None)
        constants = self.remake()
        remade = [constants[row.name] for row in self.rows if row.name in constants]
        if [c.digest for c in remade] != [row.digest for row in self.rows]:
            raise CacheError(
                "constants that were kept are gone, and the passes make others now",
                where=cache.disk().folder,
                try_="ironworks cache clear",
            )
        return tuple(c.array for c in remade)

    def _read(self, row: ConstantRow) -> np.ndarray | None:
        """Read one value; return None if it is missing or has another size."""
        content = row.digest, row.dtype, row.shape
        if (value := _in_memory.get(content)) is not None:
            return value
        data = cache.get(row.key) if row.small is None else b64decode(row.small)
        if data is None or len(data) != row.bytes:
            return None
        element = numpy_dtype(row.dtype)
        array = np.frombuffer(data, element) if data else np.empty(0, element)
        return _in_memory.setdefault(content, array.reshape(row.shape))


class StoredConstant(Constant):
    """Constant whose value is read when it is first used; its description is at hand."""

    def __init__(self, batch: Batch, number: int) -> None:
        """Describe constant `number` of a batch."""
        self._batch, self._number = batch, number
        self._layouts = WeakValueDictionary()
        self._transposed = WeakValueDictionary()

    @cached_property
    def array(self) -> np.ndarray:
        """The value; read-only."""
        value = np.ascontiguousarray(self._batch.arrays[self._number])
        value = value.reshape(self._row.shape)
        value.flags.writeable = False
        return value

    @property
    def _row(self) -> ConstantRow:
        """Its description."""
        return self._batch.rows[self._number]

    @cached_property
    def digest(self) -> str:
        """The digest that it was stored with."""
        return self._row.digest

    @property
    def type(self) -> Tensor:
        """The type of the value."""
        return Tensor(self._row.shape, self._row.dtype)


def bytes_of(constants: Iterable[Constant]) -> int:
    """Return the total size of constants in bytes."""
    return sum(c.array.nbytes for c in constants)


def store_constants(
    constants: Mapping[str, Constant], store: cache.DiskStore
) -> list[dict[str, Any]] | None:
    """Write constants to the store and return their rows.

    Returns None if they are too large, or if one has a dtype that cannot be stored.
    """
    if bytes_of(constants.values()) > LARGEST_BYTES or any(
        dtype_of(c.array) not in ITEM_BYTES for c in constants.values()
    ):
        return None
    rows = [_put(name, constant, store) for name, constant in constants.items()]
    return None if any(row is None for row in rows) else [asdict(row) for row in rows if row]


def row_of(fields: Mapping[str, Any]) -> ConstantRow:
    """Return a row from its JSON form."""
    return ConstantRow(**{**fields, "shape": tuple(fields["shape"])})


def _put(name: str, constant: Constant, store: cache.DiskStore) -> ConstantRow | None:
    """Store one constant and return its row, or None if that fails."""
    array = constant.array
    small = b64encode(array.tobytes()).decode() if array.nbytes <= SMALL_BYTES else None
    row = ConstantRow(name, constant.digest, dtype_of(array), array.shape, small)
    if small is not None or store.has(row.key):
        return row
    payload = array.reshape(-1).view(np.uint8).data
    return row if store.put(row.key, payload, "constant") else None


def _each(do: Callable[[T], R], items: Sequence[T], size: int) -> list[R]:
    """Map a function over items, on several threads if they are large.

    Hashing takes most of the time and releases the interpreter lock.
    """
    threads = min(THREADS, cores(), len(items))
    if size < MANY_BYTES or threads < 2:
        return [do(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(do, items))
