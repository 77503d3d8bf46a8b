"""Memory for one run of a bound program at a time, and NumPy views of the values in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Protocol, TypeAlias

import numpy as np

from explorer.codegen.build import KernelCode
from explorer.ir.types import numpy_dtype
from explorer.runtime.binding.launch_code import LaunchCode
from explorer.runtime.binding.tables import (
    ARENA,
    FIRST_INPUT,
    ArgumentBlocks,
    Template,
    ValuePlaces,
)
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.planning.plan import Plan
from explorer.runtime.workers.aligned_memory import ALIGNMENT, address_of, aligned_bytes
from explorer.runtime.workers.launch import Launch

Array = np.ndarray
ArrayGetter: TypeAlias = Callable[[], Array]


class Arena:
    """Memory for one run at a time: intermediates, scratch, and tables that point into them.

    `recording` holds the actions of a run in this memory, once they were recorded.
    """

    def __init__(self, bound: Layout) -> None:
        """Allocate the memory of a bound program, and its launches."""
        self.bound = bound
        plan, units = bound.plan, bound.units
        self.memory = aligned_bytes(max(ALIGNMENT, plan.placed.bytes))
        scratch = bound.blocks.scratch_bytes + isa.LINE_BYTES
        self.scratch = aligned_bytes(scratch * units)
        count = FIRST_INPUT + len(plan.program.inputs) + len(plan.program.outputs)
        self.bases = np.zeros((units, count), np.int64)
        self.bases[:, ARENA] = address_of(self.memory)
        self.bases[:, ARENA + 1] = address_of(self.scratch) + scratch * np.arange(units)
        self.args = np.stack([bound.args.addresses(bases) for bases in self.bases])
        self.launches = {
            id(code): self._launch(code, slots) for code, slots in zip(bound.launches, bound.slots)
        }
        self.arrays: list[Array] = []  # inputs of a run, then outputs
        self._moving = memoryview(self.bases[0])[FIRST_INPUT:]
        self.recording: tuple[Callable[[Any], None], ...] | None = None

    def _launch(self, code: LaunchCode, slots: Template) -> Launch:
        launch = Launch(
            code.rows,
            len(code.operators),
            len(code.slots),
            len(code.pointers),
            code.registers,
            code.stack,
            len(code.marks),
        )
        moves = [slots.moves(of_unit) for of_unit in launch.slots]
        for n, operator in enumerate(code.operators):
            block = self.bound.blocks.block_of[operator.name]
            launch.code[:, n, 0] = self.bound.codes[operator.binding].address
            for place, unit in enumerate(code.units):
                args = self.args[unit]
                launch.code[place, n, 1] = address_of(args) + args.itemsize * block.start
                moves.append(self.bound.args.moves(args, block))
        launch.slots[:, : len(slots.base)] = slots.addresses(self.bases[0])
        for place, unit in enumerate(code.units):
            for n, pointer in enumerate(code.pointers):
                launch.point(place, n, pointer, unit)
        launch.move(np.concatenate(moves), self.bases[0])
        return launch

    def point(self, arrays: Sequence[Array]) -> None:
        """Let the next run read these inputs and write these outputs."""
        self.arrays[:] = arrays
        for n, array in enumerate(arrays):
            self._moving[n] = address_of(array)


class Views:
    """Getters of a value's array: always the same array, or a part of a run's input or output."""

    def __init__(self, arena: Arena) -> None:
        """Create the views of an arena."""
        self.arena, self.bound = arena, arena.bound
        self.values = arena.bound.plan.program.values

    def of(self, name: str, like: str = "") -> ArrayGetter:
        """Return the getter of a value; with the shape of `like`, if given."""
        value, shape = self.values[name], self.bound.plan.shape(like or name)
        places = self.bound.places
        if value.home == "constant":
            return _constant_getter(self._cut(name, shape)(places.constants.plain(value.root)))
        if value.home == "shape":
            return _constant_getter(self._cut(name, shape)(places.shape_value(value.root)))
        place = places.of(name)
        if place.base < FIRST_INPUT:
            return _constant_getter(self._in_arena(name, place.offset, shape))
        at, arrays, cut = place.base - FIRST_INPUT, self.arena.arrays, self._cut(name, shape)
        return lambda: cut(arrays[at])

    def output(self, position: int) -> ArrayGetter:
        """Return the getter of an output's complete array."""
        at = len(self.bound.plan.program.inputs) + position
        arrays = self.arena.arrays
        return lambda: arrays[at]

    def apart(self, a: str, b: str) -> bool:
        """Return True if two values lie at different places."""
        return not self.values[a].is_at(self.values[b])

    def _cut(self, name: str, shape: tuple[int, ...]) -> Callable[[Array], Array]:
        """Return a function from a root's array to a value's part of it."""
        item = numpy_dtype(self.values[name].type.element).itemsize
        begin, count = self.bound.plan.offset_bytes(name) // item, prod(shape)

        def cut(array: Array) -> Array:
            if array.shape == shape:
                return array
            return array.reshape(-1)[begin : begin + count].reshape(shape)

        return cut

    def _in_arena(self, name: str, offset: int, shape: tuple[int, ...]) -> Array:
        dtype = numpy_dtype(self.values[name].type.element)
        count = prod(shape) * dtype.itemsize
        return self.arena.memory[offset : offset + count].view(dtype).reshape(shape)


def _constant_getter(array: Array) -> ArrayGetter:
    return lambda: array


class Layout(Protocol):
    """The parts of a bound program that memory is allocated for."""

    @property
    def plan(self) -> Plan:
        """The plan of the program's binding."""
        ...

    @property
    def units(self) -> int:
        """The number of units."""
        ...

    @property
    def codes(self) -> Mapping[str, KernelCode]:
        """The code of each kernel call, by binding."""
        ...

    @property
    def places(self) -> ValuePlaces:
        """The place of every value."""
        ...

    @property
    def blocks(self) -> ArgumentBlocks:
        """The argument blocks of kernel calls."""
        ...

    @property
    def args(self) -> Template:
        """The argument blocks as a template."""
        ...

    @property
    def slots(self) -> Sequence[Template]:
        """The slots of each launch, as templates."""
        ...

    @property
    def launches(self) -> Sequence[LaunchCode]:
        """The launches in order."""
        ...
