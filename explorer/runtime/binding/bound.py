"""A program bound to sizes: its plan, its tables, and a pool of arenas for runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from explorer.budget import check_room
from explorer.codegen.build import KernelCode
from explorer.counters import counters
from explorer.grinder import LibraryTask
from explorer.ir.types import numpy_dtype
from explorer.runtime.binding.arena import Arena
from explorer.runtime.binding.constants import Constants
from explorer.runtime.binding.launches.assemble import assemble
from explorer.runtime.binding.launches.launch_code import HostBranch, HostLoop, LaunchCode, Step
from explorer.runtime.binding.launches.launch_inputs import LaunchInputs
from explorer.runtime.binding.recording import Recording, RunTrace, capture, replay
from explorer.runtime.binding.results import Outputs
from explorer.runtime.binding.tables import ArgumentBlocks, Template, ValuePlaces
from explorer.runtime.planning.plan import Plan
from explorer.runtime.workers.teams import Launcher


class BoundProgram:
    """A program bound to sizes, immutable except for its pool of arenas.

    Concurrent runs take an arena each. `shape_inputs` are arrays that every run reads after its
    inputs.
    """

    def __init__(
        self,
        plan: Plan,
        constants: Constants,
        codes: Mapping[str, KernelCode],
        units: int,
        shape_inputs: Sequence[np.ndarray] = (),
    ) -> None:
        """Assemble the launches of a plan, and lay out their tables."""
        self.plan, self.codes, self.units, self.shape_inputs = (
            plan,
            codes,
            units,
            tuple(shape_inputs),
        )
        self.places = ValuePlaces(plan, constants)
        program, frames = plan.program, plan.placed.frames
        inputs = (
            program,
            plan.schedules,
            units,
            plan.sizes,
            codes,
            frames,
            plan.alone,
            plan.unit_assignments,
        )
        self.steps = assemble(LaunchInputs(*inputs))
        self.launches = tuple(launches(self.steps))
        self.blocks = ArgumentBlocks(self.places, codes)
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
        self.used = 0  # time stamp of the last use

    @property
    def arena_bytes(self) -> int:
        """The bytes of one arena, with scratch and the stacks of its units."""
        calls = 8 * sum(len(code.units) * code.stack for code in self.launches)
        return self.plan.placed.bytes + self.units * self.blocks.scratch_bytes + calls

    def check_room(self, name: str) -> None:
        """Check that the intermediates and results of a run fit into memory.

        Raises:
            TooLarge: They do not fit.
        """
        results = sum(prod(shape) * dtype.itemsize for shape, dtype in self.outputs.kinds)
        what = f"a run of {name} with its {len(self.outputs.kinds)} results"
        check_room(self.arena_bytes + results, what, name)

    @property
    def pooled_bytes(self) -> int:
        """The bytes of the arenas that no run uses."""
        return len(self.pool) * self.arena_bytes

    def take(self) -> Arena:
        """Return an arena that no other run uses."""
        try:
            return self.pool.pop()
        except IndexError:
            counters.add("arenas_made")
            return Arena(self)

    def give(self, arena: Arena) -> None:
        """Return an arena to the pool."""
        arena.arrays.clear()
        self.pool.append(arena)

    def replay(self, arena: Arena, team: Launcher, traced: RunTrace | None = None) -> None:
        """Run an arena's recording, which is captured before the first run."""
        replay(self.recording(arena), team, traced)

    def recording(self, arena: Arena) -> Recording:
        """Return the recording of a run in an arena."""
        if arena.recording is None:
            counters.add("captures")
            arena.recording = capture(self.steps, self.copied, arena)
        else:
            counters.add("replays")
        return arena.recording


def launches(steps: Sequence[Step]) -> list[LaunchCode]:
    """Return every launch of the steps, in order."""
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
