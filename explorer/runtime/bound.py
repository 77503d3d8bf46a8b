"""A program bound to sizes: its plan, its tables, and a pool of arenas that runs take from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from explorer.codegen.build import KernelCode
from explorer.counters import counters
from explorer.grinder import LibraryTask
from explorer.ir.types import numpy_dtype
from explorer.runtime import instructions as isa
from explorer.runtime.arena import ALIGNMENT, address_of, aligned_bytes
from explorer.runtime.assemble import HostBranch, HostLoop, LaunchCode, Step, assemble
from explorer.runtime.constants import Constants
from explorer.runtime.launch import Launch
from explorer.runtime.plan import Plan
from explorer.runtime.tables import ARENA, FIRST_INPUT, Blocks, Places, Template

Array = np.ndarray


class Bound:
    """Immutable but for its pool; runs from several threads take an arena each."""

    def __init__(
        self, plan: Plan, constants: Constants, codes: Mapping[str, KernelCode], units: int
    ) -> None:
        self.plan, self.codes, self.units = plan, codes, units
        self.places = Places(plan, constants)
        self.steps = assemble(plan.program, plan.schedules, units, plan.sizes)
        self.launches = tuple(launches(self.steps))
        self.blocks = Blocks(self.places, codes)
        for launch in self.launches:
            self.blocks.add(launch)
        self.args = Template.of(self.blocks.rows)
        self.slots = tuple(
            Template.of([self.places.of(name) for name in launch.slots]) for launch in self.launches
        )
        program = plan.program
        self.outputs = tuple(
            (plan.shape(name), numpy_dtype(program.values[name].type.element))
            for name in program.outputs
        )
        direct = set(plan.direct.values())
        self.copied = tuple(n for n in range(len(program.outputs)) if n not in direct)
        self.pool: list[Arena] = []

    @property
    def arena_bytes(self) -> int:
        """What one arena takes, scratch included."""
        return self.plan.memory.planned_bytes + self.units * self.blocks.scratch_bytes

    @property
    def pooled_bytes(self) -> int:
        """What the arenas take that no run uses."""
        return len(self.pool) * self.arena_bytes

    def take(self) -> Arena:
        """An arena that no other run uses."""
        try:
            return self.pool.pop()
        except IndexError:
            counters.add("arenas_made")
            return Arena(self)

    def give(self, arena: Arena) -> None:
        """Let others use it."""
        self.pool.append(arena)


def launches(steps: Sequence[Step]) -> list[LaunchCode]:
    """Every launch of the steps, in order."""
    out: list[LaunchCode] = []
    for step in steps:
        match step:
            case LaunchCode():
                out.append(step)
            case HostLoop(body=body):
                out += launches(body)
            case HostBranch(then=then, orelse=orelse):
                out += launches((*then, *orelse))
            case LibraryTask():
                continue
    return out


class Arena:
    """Memory for one run at a time: intermediates, scratch, and the tables that point into them."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        plan, units = bound.plan, bound.units
        self.memory = aligned_bytes(max(ALIGNMENT, plan.memory.planned_bytes))
        scratch = bound.blocks.scratch_bytes + isa.LINE_BYTES
        self.scratch = aligned_bytes(scratch * units)
        count = FIRST_INPUT + len(plan.program.inputs) + len(plan.program.outputs)
        self.bases = np.zeros((units, count), np.int64)
        self.bases[:, ARENA] = address_of(self.memory)
        self.bases[:, ARENA + 1] = address_of(self.scratch) + scratch * np.arange(units)
        self.args = np.stack([bound.args.addresses(bases) for bases in self.bases])
        self.moving = bound.args.moving
        self.moving_base = bound.args.base[self.moving]
        self.moving_offset = bound.args.offset[self.moving]
        self.launches = {
            id(code): self._launch(code, slots) for code, slots in zip(bound.launches, bound.slots)
        }
        self.moving_slots = tuple(
            (self.launches[id(code)].slots, t)
            for code, t in zip(bound.launches, bound.slots)
            if len(t.moving)
        )
        self.arrays: list[Array] = []
        self._views: dict[str, Array] = {}

    def _launch(self, code: LaunchCode, slots: Template) -> Launch:
        launch = Launch(code.rows, len(code.operators), len(code.slots))
        for n, operator in enumerate(code.operators):
            begin = self.bound.blocks.begins[operator.name]
            launch.code[:, n, 0] = self.bound.codes[operator.binding].address
            launch.code[:, n, 1] = [address_of(self.args[unit][begin:]) for unit in code.units]
        launch.slots[: len(slots.base)] = slots.addresses(self.bases[0])
        return launch

    def point(self, arrays: list[Array]) -> None:
        """Let the tables point to these inputs and outputs."""
        self.arrays = arrays
        addresses = [a.__array_interface__["data"][0] for a in arrays]
        bases = self.bases[0]
        bases[FIRST_INPUT:] = addresses
        self.args[:, self.moving] = bases[self.moving_base] + self.moving_offset
        for slots, template in self.moving_slots:
            at = template.moving
            slots[at] = bases[template.base[at]] + template.offset[at]

    def array(self, name: str) -> Array:
        """A value as NumPy sees it."""
        value = self.bound.plan.program.values[name]
        if value.home == "constant":
            return self._part(self.bound.places.constants.plain(value.root), name)
        if value.home == "shape":
            return self._part(self.bound.places.shape_value(value.root), name)
        place = self.bound.places.of(name)
        if place.base >= FIRST_INPUT:
            return self._part(self.arrays[place.base - FIRST_INPUT], name)
        if name not in self._views:
            self._views[name] = self._view(name, place.offset)
        return self._views[name]

    def _part(self, whole: Array, name: str) -> Array:
        begin, shape = self.bound.plan.offset_bytes(name) // whole.itemsize, self._shape(name)
        count = int(np.prod(shape, dtype=np.int64))
        return whole.reshape(-1)[begin : begin + count].reshape(shape)

    def _view(self, name: str, offset: int) -> Array:
        dtype, shape = self._dtype(name), self._shape(name)
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return self.memory[offset : offset + count].view(dtype).reshape(shape)

    def _shape(self, name: str) -> tuple[int, ...]:
        return self.bound.plan.shape(name)

    def _dtype(self, name: str) -> np.dtype[np.generic]:
        return numpy_dtype(self.bound.plan.program.values[name].type.element)
