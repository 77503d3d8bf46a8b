"""Steps between launches and between trips, as a plan knows them, and their times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from explorer.cost.levels import levels_of
from explorer.devices.model import Device
from explorer.grinder import BranchTask, LibraryTask, LoopTask, UProgram
from explorer.grinder.tree import arm_needs_barrier, loop_needs_barrier
from explorer.ir.dims import Sizes, evaluate_dim
from explorer.ir.program import Constant
from explorer.memory.extents import Extents
from explorer.rammer import Overheads
from explorer.runtime.planning.task_times import TaskFact

LibraryFacts: TypeAlias = Callable[[LibraryTask, Extents], TaskFact]


def no_time(task: LibraryTask, extents: Extents) -> TaskFact:
    """Return no time, for a plan that is made for its arena alone."""
    return TaskFact(1, 0.0)


@dataclass(frozen=True, slots=True)
class HostSteps:
    """The steps between launches and trips, under one binding.

    `seen`: measured trips of loops, calls of recursions, and how many of the calls took the first
    arm of a branch ("branch/then"). `overheads` None: schedules count launches.
    """

    program: UProgram
    device: Device
    sizes: Sizes
    extents: Extents
    constants: Mapping[str, Constant]
    library: LibraryFacts
    seen: Mapping[str, int]
    overheads: Overheads | None

    @property
    def barrier_us(self) -> float:
        """The time until all units have met."""
        return self.overheads.barrier_us if self.overheads is not None else 0.0

    def trips(self, loop: LoopTask) -> int | None:
        """Return the number of a loop's turns.

        Return None if only a run can tell, by its inputs or its body, and none was measured.
        """
        trip_count = self.trip_count(loop)
        if trip_count is None:
            return self.seen.get(loop.name)
        return (
            max(trip_count, 0) % loop.remainder_of if loop.remainder_of else trip_count // loop.turn
        )

    def trip_count(self, loop: LoopTask) -> int | None:
        """Return the trips of a loop and its remainder, if constants and sizes determine them."""
        value = self.program.values.get(loop.trip)
        if value is None or loop.checked:
            return None
        if value.home == "shape" and value.dims:
            return int(evaluate_dim(value.dims[0], self.sizes))
        constant = self.constants.get(value.root) if value.home == "constant" else None
        if constant is None:
            return None
        return int(constant.array.reshape(-1)[evaluate_dim(value.offset, self.sizes)])

    def entry_copy_us(self, loop: LoopTask) -> float:
        """Return the time to copy the initial values of a loop."""
        return sum(self.copy_us(c.param, c.initial) for c in loop.carried if c.initial)

    def between_turns(self, loop: LoopTask) -> tuple[int, float]:
        """Return the barriers and copy time from a turn's last brick to the next one's first."""
        rows = [(s.row, s.value) for s in loop.stacked if s.value != s.row]
        barriers = 2 + bool(rows or any(c.staging for c in loop.carried))
        barriers += loop_needs_barrier(loop, self.program.values)
        copied = sum(self.copy_us(row, value) for row, value in rows)
        return barriers, copied + self.carried_us(loop)

    def barriers_before_arm(self, branch: BranchTask, arm: int) -> int:
        """Return the barriers before the first part of a branch's first (1) or second (2) arm."""
        return 1 + arm_needs_barrier(branch, arm, self.program.values)

    def after_arm(self, branch: BranchTask, arm: int) -> tuple[int, float]:
        """Return the barriers and the copy time after a branch's first (1) or second (2) arm."""
        pairs = [(row[0], row[arm]) for row in branch.results]
        parts = branch.then if arm == 1 else branch.orelse
        copied = sum(self.copy_us(*pair) for pair in pairs)
        return bool(parts) + any(not self.is_there(*pair) for pair in pairs), copied

    def carried_us(self, loop: LoopTask) -> float:
        """Return the time to copy the loop-carried values, from one turn to the next."""
        pairs = [(c.staging, c.result) for c in loop.carried if c.staging]
        pairs += [(c.param, c.staging or c.result) for c in loop.carried]
        return sum(self.copy_us(target, source) for target, source in pairs)

    def copy_us(self, target: str, source: str) -> float:
        """Return the time of a copy by all units, a part each, through their shared memory."""
        return 0.0 if self.is_there(target, source) else self.moved_us(target)

    def is_there(self, target: str, source: str) -> bool:
        """Return True if a value is at the target of its copy already."""
        return self.program.values[target].is_at(self.program.values[source])

    def moved_us(self, name: str) -> float:
        """Return the time of a copy from elsewhere."""
        count, levels = self.extents.bytes(name), levels_of(self.device)
        level = levels.levels[levels.home(count, False)]
        return 2.0 * count / (level.bytes_per_us * levels.units)
