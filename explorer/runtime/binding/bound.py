"""A program bound to sizes: its plan, its tables, and a pool of arenas that runs take from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from explorer.budget import check_room
from explorer.codegen.build import KernelCode
from explorer.counters import counters
from explorer.grinder import LibraryTask
from explorer.ir.types import numpy_dtype
from explorer.runtime.binding.assemble import HostBranch, HostLoop, LaunchCode, Step, assemble
from explorer.runtime.binding.constants import Constants
from explorer.runtime.binding.recording import Recording, Traced, capture, replay
from explorer.runtime.binding.results import Outputs
from explorer.runtime.binding.tables import ARENA, FIRST_INPUT, Blocks, Places, Template
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.planning.plan import Plan
from explorer.runtime.teams import Launcher
from explorer.runtime.workers.arena import ALIGNMENT, address_of, aligned_bytes
from explorer.runtime.workers.launch import Launch

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
        kinds = [
            (plan.shape(name), numpy_dtype(program.values[name].type.element))
            for name in program.outputs
        ]
        self.outputs = Outputs.of(program.output_names, kinds, plan.planner.overwritable)
        direct = set(plan.direct.values())
        self.copied = tuple((n, o) for n, o in enumerate(program.outputs) if n not in direct)
        self.pool: list[Arena] = []
        self.used = 0  # the later, the greater

    @property
    def arena_bytes(self) -> int:
        """What one arena takes, scratch included."""
        return self.plan.placed.bytes + self.units * self.blocks.scratch_bytes

    def check_room(self, name: str) -> None:
        """TooLarge where a run's intermediates and results are."""
        results = sum(prod(shape) * dtype.itemsize for shape, dtype in self.outputs.kinds)
        what = f"a run of {name} with its {len(self.outputs.kinds)} results"
        check_room(self.arena_bytes + results, what, name)

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
        arena.arrays.clear()
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
    """Memory for one run at a time: intermediates, scratch, tables that point into them, and the
    recording of a run."""

    def __init__(self, bound: Bound) -> None:
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
        self.arrays: list[Array] = []  # of a run: inputs, then outputs
        self._moving = memoryview(self.bases[0])[FIRST_INPUT:]
        self.recording: Recording | None = None

    def _launch(self, code: LaunchCode, slots: Template) -> Launch:
        launch = Launch(code.rows, len(code.operators), len(code.slots))
        moves = [slots.moves(launch.slots)]
        for n, operator in enumerate(code.operators):
            block = self.bound.blocks.block_of[operator.name]
            launch.code[:, n, 0] = self.bound.codes[operator.binding].address
            for place, unit in enumerate(code.units):
                args = self.args[unit]
                launch.code[place, n, 1] = address_of(args) + args.itemsize * block.start
                moves.append(self.bound.args.moves(args, block))
        launch.slots[: len(slots.base)] = slots.addresses(self.bases[0])
        launch.move(np.concatenate(moves), self.bases[0])
        return launch

    def point(self, arrays: Sequence[Array]) -> None:
        """Let the next run read these inputs and write these outputs."""
        self.arrays[:] = arrays
        for n, array in enumerate(arrays):
            self._moving[n] = address_of(array)

    def replay(self, team: Launcher, traced: Traced | None = None) -> None:
        """Do what the recording says, which is made before the first run."""
        if self.recording is None:
            counters.add("captures")
            self.recording = capture(self.bound.steps, self.bound.copied, self)
        else:
            counters.add("replays")
        replay(self.recording, team, traced)
