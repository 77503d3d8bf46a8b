"""Weights of several programs in few bytes: arrays that programs share are stored once.

Programs pack the same weights differently. A packed array is recorded as the order in which it
takes the elements of another one; such an order is regular and compresses to little. Filters of
Winograd's algorithm are computed in the page, in float64 and with the same roundings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.compilation import Compilation
from explorer.portable.program import PortableProgram
from explorer.portable.webgpu import WebGpuProgram
from explorer.transforms.minimal_filters import F2, F4, TAPS, MinimalFilter

WORD = 4  # bytes of an element whose order may be recorded: float32, int32
ZERO = -1  # the position of an element that is zero and taken from nowhere
LEAST_BYTES = 256  # of an array whose order is recorded; a smaller one is stored as it is
STORED, COMPUTED = 0, 1  # the sources of a piece
Piece = tuple[int, int, int, int, int]
Words = NDArray[np.uint32]


@dataclass(slots=True)
class WeightStore:
    """The bytes of all weights: `data`, and filters that the page computes from them.

    A piece is [place in a program's weights, source, place in the source, bytes, place of an
    order]. Without an order, -1, the bytes are copied. An order is the number of its runs, then for
    each run a step and how often it is taken, all int32: an element's position is that of the one
    before and the step; at `ZERO` it is zero.
    """

    data: bytearray = field(default_factory=bytearray)
    filters: list[dict[str, Any]] = field(default_factory=list)
    computed_bytes: int = 0
    _arrays: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    _elements: dict[bytes, tuple[int, int, Words]] = field(default_factory=dict)

    def add_filters(self, winograd: Compilation, direct: Compilation) -> None:
        """Add the filters of Winograd's algorithm in a program, from those of a direct one.

        Filters with groups, and those along a row, are not computed in the page.
        """
        for name, constant in winograd.program.constants.items():
            for by in (F2, F4):
                base, mark, _ = name.partition(f".{by.label}")
                if mark and base in direct.program.constants:
                    self._add_filter(by, constant.array, direct.program.constants[base].array)

    def _add_filter(self, by: MinimalFilter, filters: NDArray[Any], plain: NDArray[Any]) -> None:
        """Add transformed filters if an order of the plain ones leads to them."""
        key = _digest(filters.tobytes())
        if key in self._arrays or plain.ndim != 4:
            return
        for order in permutations(range(4)):
            taps = np.ascontiguousarray(plain.transpose(order))
            fits = taps.shape[:2] == (TAPS, TAPS) and taps.shape[2:] == filters.shape[2:]
            if fits and np.array_equal(by.filters(taps), filters):
                break
        else:
            return
        _, source, place, _, _ = self._piece(0, taps.tobytes())
        self.filters.append(
            {
                "source": place,
                "count": taps.size // TAPS**2,
                "place": self.computed_bytes,
                "matrix": [[float(f) for f in row] for row in by.filter],
            }
        )
        assert source == STORED, "plain filters are stored before they are transformed"
        self._enter(COMPUTED, self.computed_bytes, filters.tobytes())
        self.computed_bytes += filters.nbytes

    def add(self, program: PortableProgram | WebGpuProgram) -> list[Piece]:
        """Store the weights of a program; return its pieces."""
        return [self._piece(at, array) for at, array in arrays_of(program)]

    def new_bytes(self, program: PortableProgram | WebGpuProgram) -> int:
        """Return the bytes of a program's arrays that are not in the store in any order."""
        arrays = {_digest(array): array for _, array in arrays_of(program)}
        return sum(
            len(array)
            for key, array in arrays.items()
            if key not in self._arrays and _multiset(array) not in self._elements
        )

    def _piece(self, at: int, array: bytes) -> Piece:
        """Return the piece of an array, which is stored if no other has its elements."""
        key = _digest(array)
        if key in self._arrays:
            return (at, *self._arrays[key], len(array), -1)
        same = _multiset(array)
        if same in self._elements:
            source, place, words = self._elements[same]
            order = self._store(_runs(words, np.frombuffer(array, np.uint32)).tobytes())
            return (at, source, place, len(array), order)
        place = self._store(array)
        self._enter(STORED, place, array)
        return (at, STORED, place, len(array), -1)

    def _enter(self, source: int, place: int, array: bytes) -> None:
        """Let other arrays refer to one."""
        self._arrays[_digest(array)] = source, place
        if same := _multiset(array):
            self._elements[same] = source, place, np.frombuffer(array, np.uint32)

    def _store(self, array: bytes) -> int:
        """Return the place of bytes in the store."""
        place = len(self.data)
        self.data.extend(array)
        self.data.extend(bytes(-len(array) % WORD))
        return place


def arrays_of(program: PortableProgram | WebGpuProgram) -> Iterator[tuple[int, bytes]]:
    """Yield the arrays of the weights with their places, without the zeros behind each."""
    begins = sorted({0, *_begins(program)})
    for begin, end in zip(begins, (*begins[1:], len(program.weights)), strict=True):
        array = program.weights[begin:end].rstrip(b"\0")
        if array:
            yield begin, array + bytes(-len(array) % WORD)


def _begins(program: PortableProgram | WebGpuProgram) -> Iterator[int]:
    """Yield where arrays of the weights begin: where an argument, a slot or a copy says."""
    if isinstance(program, WebGpuProgram):
        yield from program.arrays
        return
    slots = (place for launch in program.launches for place in launch.slots)
    copied = (place for _, place, _ in program.copies)
    places = (*program.arguments, *slots, *copied)
    yield from (offset for space, _, offset in places if space == "w")


def _digest(array: bytes) -> bytes:
    return hashlib.sha256(array.rstrip(b"\0")).digest()


def _multiset(array: bytes) -> bytes:
    """Return a key of the elements that are not zero in any order; b"" of a small array."""
    if len(array) < LEAST_BYTES:
        return b""
    words = np.frombuffer(array, np.uint32)
    return hashlib.sha256(np.sort(words[words != 0]).tobytes()).digest()


def _runs(source: Words, array: Words) -> NDArray[np.int32]:
    """Return the order in which an array takes the elements of another one, as runs of steps."""
    order = np.full(len(array), ZERO, np.int64)
    taken, filled = (np.flatnonzero(words) for words in (source, array))
    sources = taken[np.argsort(source[taken], kind="stable")]
    order[filled[np.argsort(array[filled], kind="stable")]] = sources
    steps = np.diff(order, prepend=0)
    begins = np.flatnonzero(np.r_[True, steps[1:] != steps[:-1]])
    counts = np.diff(np.r_[begins, len(steps)])
    runs: NDArray[np.int64] = np.r_[len(begins), np.c_[steps[begins], counts].ravel()]
    return runs.astype(np.int32)
