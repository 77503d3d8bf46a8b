"""A program bound to sizes as plain data: kernels, argument blocks, device-program words, weights.

A C program or a page of a browser runs it without Python. It places five regions of memory, and
every address is an offset in one of them:

weights | arena | scratch | inputs | outputs;  kernel(first task, last task, argument block)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from explorer.devices.isa import InstructionSet
from explorer.ir.dims import Dim, SymbolBound, product, simplify
from explorer.ir.types import numpy_dtype
from explorer.plain_text import counted, size
from explorer.printed import Printed

FORMAT = 1
MOST_EXACT = 1 << 53  # of the numbers of JavaScript
Place = tuple[str, int, int]  # space, number of the input or output, offset in bytes; "n": a number
Row = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class PortableKernel:
    """A printed kernel: `name` is that of its function, which is not in the source."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class PortableTensor:
    """An input or output in C order; `at` is its first word in an arena that holds it, else 0."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    at: int = 0

    @property
    def elements(self) -> int:
        """The number of its elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Its bytes."""
        return int(self.elements * numpy_dtype(self.dtype).itemsize)

    def to_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        shape = list(self.shape)
        return {
            "name": self.name,
            "dtype": self.dtype,
            "shape": shape,
            "bytes": self.bytes,
            "at": self.at,
        }


@dataclass(frozen=True, slots=True)
class PortableCall:
    """A kernel call: its kernel's number, and the first word of its argument block."""

    kernel: int
    arguments: int
    name: str
    origin: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PortablePointer:
    """An address that moves with a loop, as `runtime.workers.launch.Pointer`."""

    call: int
    at: int
    source: int
    step: int
    begin: int
    apart: int = 0


@dataclass(frozen=True, slots=True)
class PortableLaunch:
    """The rows of the first unit, and the tables that they index.

    `units` are the numbers of the units that take part; `other_rows` are the rows of all but the
    first.
    """

    rows: tuple[Row, ...]
    calls: tuple[PortableCall, ...]
    slots: tuple[Place, ...]
    pointers: tuple[PortablePointer, ...]
    registers: int
    stack: int  # words
    faults: tuple[str, ...]  # the sentence of each fault, from 1
    units: tuple[int, ...] = (0,)
    other_rows: tuple[tuple[Row, ...], ...] = ()


class Formula(int):
    """A number of a program with symbols: its value at the planned sizes, and its formula."""

    dim: Dim

    def __new__(cls, value: int, dim: Dim) -> Formula:
        """Create a number from its value and its formula."""
        number = super().__new__(cls, value)
        number.dim = dim
        return number

    def __add__(self, other: int) -> Formula:
        """Return the sum, with its formula."""
        return Formula(int(self) + int(other), simplify(self.dim + dim_of(other)))

    def __mul__(self, other: int) -> Formula:
        """Return the product, with its formula."""
        return Formula(int(self) * int(other), product((self.dim, dim_of(other))))

    __radd__, __rmul__ = __add__, __mul__


def dim_of(number: int) -> Dim:
    """Return the formula of a number: itself unless it depends on symbols."""
    return number.dim if isinstance(number, Formula) else number


@dataclass(frozen=True, slots=True)
class Symbols:
    """The symbols that a run of a program takes, and the formulas of its storages' ends.

    `ends` are (symbol, formula) in an order in which each needs only those before it; `equal` are
    (sentence, formula, formula): extents that must be equal; `words` are (offset in the arena,
    formula): int64 elements of values that hold sizes.
    """

    bounds: tuple[SymbolBound, ...] = ()
    ends: tuple[tuple[str, Dim], ...] = ()
    equal: tuple[tuple[str, Dim, Dim], ...] = ()
    words: tuple[tuple[int, Dim], ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class PortableProgram(Printed):
    """A program that runs where its kernels are placed.

    It has one unit and all sizes bound, unless it has several `units`, or `symbols`: numbers that
    depend on those are `Formula`s. `arguments` are the argument blocks one after the other;
    `copies` are values that are copied to an output at the end: (number of the output, place,
    bytes). `weights` are the constants and tables in one block. Every region begins at a multiple
    of `ALIGNMENT`, 64 bytes.
    """

    name: str
    device: str
    isa: InstructionSet
    sizes: tuple[tuple[str, int], ...]
    inputs: tuple[PortableTensor, ...]
    outputs: tuple[PortableTensor, ...]
    kernels: tuple[PortableKernel, ...]
    arguments: tuple[Place, ...]
    launches: tuple[PortableLaunch, ...]
    copies: tuple[tuple[int, Place, int], ...]
    arena_bytes: int
    scratch_bytes: int  # of each unit
    weights: bytes
    units: int = 1
    symbols: Symbols = Symbols()

    def __str__(self) -> str:
        """Return the name, and what it consists of."""
        kernels = counted(len(self.kernels), "kernel")
        calls = counted(sum(len(launch.calls) for launch in self.launches), "call")
        weights, arena = size(len(self.weights)), size(self.arena_bytes)
        return f"{self.name} for {self.device}: {calls} of {kernels}, {weights} of weights, {arena}"

    def to_dict(self) -> dict[str, Any]:
        """Return all but the weights as values of JSON; numbers that depend on sizes as text."""
        data = {
            "format": FORMAT,
            "name": self.name,
            "device": self.device,
            "sizes": dict(self.sizes),
            "inputs": [t.to_dict() for t in self.inputs],
            "outputs": [t.to_dict() for t in self.outputs],
            "arena": self.arena_bytes,
            "scratch": self.scratch_bytes,
            "units": self.units,
            "weights": len(self.weights),
            "kernels": [k.name for k in self.kernels],
            "args": [_place(place) for place in self.arguments],
            "launches": [_launch(launch) for launch in self.launches],
            "copies": [[output, _place(place), count] for output, place, count in self.copies],
        }
        if not self.symbols.bounds:
            return data
        data["symbols"] = [[b.name, b.low, b.high, b.hint] for b in self.symbols.bounds]
        data["ends"] = [[name, str(dim)] for name, dim in self.symbols.ends]
        data["words"] = [[offset, str(dim)] for offset, dim in self.symbols.words]
        return {name: _with_formulas(value) for name, value in data.items()}


def _with_formulas(value: Any) -> Any:
    """Return a value of JSON with the text of each formula in its place."""
    if isinstance(value, list):
        return [_with_formulas(item) for item in value]
    if isinstance(value, dict):
        return {name: _with_formulas(item) for name, item in value.items()}
    return str(value.dim) if isinstance(value, Formula) else value


def _place(place: Place) -> list[str | int]:
    """Return a place as JSON; a number that is exact in no float64 is text."""
    space, number, offset = place
    return [space, number, offset if abs(offset) <= MOST_EXACT else str(offset)]


def _launch(launch: PortableLaunch) -> dict[str, Any]:
    of_units: dict[str, Any] = {}
    if launch.other_rows:
        others = [[list(row) for row in rows] for rows in launch.other_rows]
        of_units = {"units": list(launch.units), "others": others}
    return {
        "rows": [list(row) for row in launch.rows],
        "calls": [[c.kernel, c.arguments, c.name, list(c.origin)] for c in launch.calls],
        "slots": [_place(place) for place in launch.slots],
        "pointers": [[p.call, p.at, p.source, p.step, p.begin, p.apart] for p in launch.pointers],
        "registers": launch.registers,
        "stack": launch.stack,
        "faults": list(launch.faults),
        **of_units,
    }
