"""Templates of argument blocks and slots: the base of each address, and its offset.

A run only adds the base addresses of its arena, its inputs and its outputs to the offsets.
Constants are converted once per program, to the layout that kernels read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from explorer.codegen.build import Argument, KernelCode
from explorer.grinder import OperatorTask
from explorer.ir.dims import evaluate_dim
from explorer.ir.program import Constant
from explorer.process.mapped_memory import is_mapped
from explorer.runtime.binding.launch_code import LaunchCode
from explorer.runtime.planning.plan import Plan
from explorer.runtime.workers.aligned_memory import ALIGNMENT, address_of, in_place
from explorer.tile.lowering.packing import packed_constant

ABSOLUTE, ARENA, SCRATCH, FIRST_INPUT = range(4)  # bases; then the inputs, then the outputs
EVERYTHING = slice(None)


@dataclass(frozen=True, slots=True)
class Address:
    """An address: `offset` bytes after a base."""

    base: int
    offset: int


@dataclass(frozen=True, slots=True)
class Template:
    """Addresses as (base, offset) columns."""

    base: np.ndarray
    offset: np.ndarray

    @staticmethod
    def of(places: Sequence[Address]) -> Template:
        """Return the columns of these places."""
        base = np.array([p.base for p in places], np.int64)
        offset = np.array([p.offset for p in places], np.int64)
        return Template(base, offset)

    def addresses(self, bases: np.ndarray) -> np.ndarray:
        """Return all addresses for these bases."""
        addresses: np.ndarray = bases[self.base] + self.offset
        return addresses

    def moves(self, table: np.ndarray, part: slice = EVERYTHING) -> np.ndarray:
        """Return the rows (where, base, offset) that each run must set in a part of a table."""
        at = np.arange(len(self.base), dtype=np.int64)[part]
        at = at[self.base[at] >= FIRST_INPUT]
        where = address_of(table) + table.itemsize * at
        return np.stack([where, self.base[at], self.offset[at]], axis=1)


class ValuePlaces:
    """The place of every value of a binding, and the owners of the bytes that no run changes."""

    def __init__(self, plan: Plan, constants: Constants) -> None:
        """Create the places of a plan's values."""
        self.plan, self.constants = plan, constants
        self.arena = plan.placed.offsets
        self.inputs = {name: n for n, name in enumerate(plan.program.inputs)}
        self.shapes: dict[str, np.ndarray] = {}
        self.alive: list[np.ndarray] = []

    def of(self, name: str) -> Address:
        """Return the place of a value's first element."""
        value = self.plan.program.values[name]
        at = self.root(value.root)
        return Address(at.base, at.offset + self.plan.offset_bytes(name))

    def root(self, name: str) -> Address:
        """Return the place of a root."""
        match self.plan.program.values[name].home:
            case "input":
                return Address(FIRST_INPUT + self.inputs[name], 0)
            case "constant":
                return self.absolute(self.constants.plain(name))
            case "shape":
                return self.absolute(self.shape_value(name))
        if name in self.plan.direct:
            return Address(FIRST_INPUT + len(self.inputs) + self.plan.direct[name], 0)
        return Address(ARENA, self.arena[name])

    def absolute(self, array: np.ndarray) -> Address:
        """Return the place of an array that never moves, and keep it alive."""
        self.alive.append(array)
        return Address(ABSOLUTE, address_of(array))

    def shape_value(self, name: str) -> np.ndarray:
        """Return the int64 tensor whose elements are dims."""
        if name not in self.shapes:
            value = self.plan.program.values[name]
            dims = [evaluate_dim(d, self.plan.sizes) for d in value.dims]
            self.shapes[name] = np.array(dims, np.int64).reshape(self.plan.shape(name))
        return self.shapes[name]


class Constants:
    """The arrays that kernels read of a program's constants, and the tables of its kernels."""

    def __init__(self, constants: Mapping[str, Constant]) -> None:
        """Create the arrays of these constants on first use."""
        self.constants = constants
        self._tables: dict[tuple[int, ...], np.ndarray] = {}
        self._alive: dict[int, np.ndarray] = {}  # by identity: kernels hold addresses only

    def plain(self, name: str) -> np.ndarray:
        """Return a constant in its own layout."""
        array = self.constants[name].array
        if not (is_mapped(array) and array.flags.aligned):
            array = self.constants[name].laid_out("in place", in_place)
        return self._keep_alive(array)

    def packed(self, name: str, argument: Argument) -> np.ndarray:
        """Return a constant packed for a micro-kernel."""
        assert argument.packing is not None
        return self._keep_alive(packed_constant(argument.packing, self.constants[name]))

    def _keep_alive(self, array: np.ndarray) -> np.ndarray:
        self._alive[id(array)] = array
        return array

    def table(self, values: tuple[int, ...]) -> np.ndarray:
        """Return an int64 table."""
        if values not in self._tables:
            self._tables[values] = in_place(np.array(values or (0,), np.int64))
        return self._tables[values]


class ArgumentBlocks:
    """The argument blocks of all kernel calls of the launches, one after the other."""

    def __init__(self, places: ValuePlaces, codes: Mapping[str, KernelCode]) -> None:
        """Create an empty table."""
        self.places, self.codes = places, codes
        self.rows: list[Address] = []
        self.block_of: dict[str, slice] = {}
        self.scratch_bytes = 0

    def add(self, launch: LaunchCode) -> None:
        """Lay out the blocks of a launch's calls."""
        for operator in launch.operators:
            if operator.name not in self.block_of:
                begin = len(self.rows)
                self.block(operator)
                self.block_of[operator.name] = slice(begin, len(self.rows))

    def block(self, operator: OperatorTask) -> None:
        """Append one kernel call's arguments, in the order in which its code takes them."""
        kernel = operator.call.kernel
        values = dict(zip(kernel.inputs, operator.args, strict=True))
        values |= zip(kernel.outputs, operator.results, strict=True)
        scratch = 0
        for argument in self.codes[operator.binding].arguments:
            if argument.kind == "scratch":
                self.rows.append(Address(SCRATCH, scratch))
                scratch += self.scratch(argument)
            else:
                self.rows.append(self.argument(argument, values))
        self.scratch_bytes = max(self.scratch_bytes, scratch)

    def argument(self, argument: Argument, values: Mapping[str, str]) -> Address:
        """Return the place of an argument of any kind but scratch."""
        places = self.places
        match argument.kind:
            case "tensor":
                place = places.of(values[argument.name])
                return Address(place.base, place.offset + argument.begin_bytes(places.plan.sizes))
            case "packed":
                return places.absolute(places.constants.packed(values[argument.name], argument))
            case "table":
                return places.absolute(places.constants.table(argument.values))
            case "dim":
                return Address(ABSOLUTE, evaluate_dim(argument.elements, places.plan.sizes))
        raise AssertionError(f"an argument of kind {argument.kind!r} is not known")

    def scratch(self, argument: Argument) -> int:
        """Return the bytes of a scratch argument: complete lines and one more.

        The last one is for wide loads at the end.
        """
        count = evaluate_dim(argument.elements, self.places.plan.sizes) * argument.item_bytes
        return (-(-count // ALIGNMENT) + 1) * ALIGNMENT
