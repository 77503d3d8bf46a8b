"""Constants that passes derived from a model's own, each stored under its content.

Compilations of one model share them. They are read when the first of them is used: planning needs
none.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from explorer.ir.program import Constant, DerivedConstant
from explorer.ir.types import Tensor
from explorer.process.allowance import cores

SMALL_BYTES = 1 << 12  # constants up to here stand beside the program
LARGEST_BYTES = 256 << 20  # of all of one program: a share of the folder's bound
MANY_BYTES = 1 << 20  # from here on several threads read
THREADS = 4
AHEAD_BYTES = 32 << 20  # of the next constants, which are read together with one; chosen
Content: TypeAlias = tuple[str, str, tuple[int, ...]]  # digest, dtype and shape
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
        self._unread: set[int] = set()  # numbers of values that only this batch reads
        self._ahead: dict[int, np.ndarray] = {}  # values that were read and are not used yet

    @property
    def is_there(self) -> bool:
        """True if each has an entry, intact or not."""
        return all(row.small is not None or cache.has(row.key) for row in self.rows)

    def constants(self) -> Mapping[str, Constant]:
        """Return the constants by their names in an entry; equal ones of several programs once."""
        return {f"derived {row.name}": self._constant(n) for n, row in enumerate(self.rows)}

    def _constant(self, number: int) -> Constant:
        row = self.rows[number]
        content = row.digest, row.dtype, row.shape
        constant = _open_constants.get(content)
        if constant is None:
            small = None if row.small is None else _read(row)
            if small is None:
                self._unread.add(number)
            constant = StoredConstant(self, number) if small is None else Constant(small)
            _open_constants[content] = constant
        return constant

    def array(self, number: int) -> np.ndarray:
        """Return a value, read from disk together with the next ones, or made again."""
        array = self._ahead.pop(number, None)
        if array is None:
            numbers = [number, *self._next(number)]
            self._unread.difference_update(numbers)
            rows = [self.rows[n] for n in numbers]
            arrays = _each(_read, rows, sum(row.bytes for row in rows))
            array, *others = arrays
            after = zip(numbers[1:], others, strict=True)
            self._ahead |= {n: a for n, a in after if a is not None}
        return self._remade[self.rows[number].name].array if array is None else array

    def _next(self, number: int) -> Iterator[int]:
        """Yield the numbers of the next values, as far as they are few bytes."""
        size = self.rows[number].bytes
        for n in range(number + 1, len(self.rows)):
            size += self.rows[n].bytes if n in self._unread else 0
            if size > AHEAD_BYTES:
                return
            if n in self._unread:
                yield n

    @cached_property
    def _remade(self) -> Mapping[str, Constant]:
        """The constants that the passes make now; CacheError if they make others."""
        constants = self.remake()
        remade = [constants[row.name] for row in self.rows if row.name in constants]
        if [c.digest for c in remade] != [row.digest for row in self.rows]:
            raise CacheError(
                "constants that were kept are gone, and the passes make others now",
                where=cache.disk().folder,
                try_="ironworks cache clear",
            )
        return constants


class StoredConstant(DerivedConstant):
    """Constant whose value is read when it is used; its description is at hand."""

    def __init__(self, batch: Batch, number: int) -> None:
        """Describe constant `number` of a batch."""
        self._row = batch.rows[number]
        kind = Tensor(self._row.shape, self._row.dtype)
        super().__init__((), kind, lambda: batch.array(number))

    @cached_property
    def digest(self) -> str:
        """The digest that it was stored with."""
        return self._row.digest


_open_constants: WeakValueDictionary[Content, Constant] = WeakValueDictionary()


def _read(row: ConstantRow) -> np.ndarray | None:
    """Read one value; return None if it is missing or has another size."""
    data = cache.get(row.key) if row.small is None else b64decode(row.small)
    if data is None or len(data) != row.bytes:
        return None
    element = numpy_dtype(row.dtype)
    array = np.frombuffer(data, element) if data else np.empty(0, element)
    return array.reshape(row.shape)


def bytes_of(constants: Iterable[Constant]) -> int:
    """Return the total size of constants in bytes."""
    return sum(c.nbytes for c in constants)


def store_constants(
    constants: Mapping[str, Constant], store: cache.DiskStore
) -> list[dict[str, Any]] | None:
    """Write constants to the store and return their rows.

    Returns None if they are too large, or if one has a dtype that cannot be stored.
    """
    if bytes_of(constants.values()) > LARGEST_BYTES or any(
        c.type.dtype not in ITEM_BYTES for c in constants.values()
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
