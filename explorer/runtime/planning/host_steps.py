"""What a plan knows of what happens between launches and between trips, and how long that takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from explorer.cost.levels import levels_of
from explorer.devices.model import Device
from explorer.grinder import BranchTask, LibraryTask, LoopTask, UProgram
from explorer.grinder.scalar_barriers import arm_needs_barrier, loop_needs_barrier
from explorer.ir.program import Constant
from explorer.ir.shapes.dims import Sizes, evaluate_dim
from explorer.rammer import Overheads
from explorer.runtime.planning.extents import Extents
from explorer.runtime.planning.runs.task_times import TaskFact

LibraryFacts: TypeAlias = Callable[[LibraryTask, Extents], TaskFact]


def no_time(task: LibraryTask, extents: Extents) -> TaskFact:
    """Of a plan that is made for its arena alone."""
    return TaskFact(1, 0.0)


@dataclass(frozen=True, slots=True)
class HostSteps:
    """Between launches and trips, under one binding.

    `seen`: trips that loops were measured to make, calls of recursions, and how many of the calls
    took the first way of a branch ("branch/then"). `overheads` None: schedules count launches.
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
        """Until all units have met."""
        return self.overheads.barrier_us if self.overheads is not None else 0.0

    def trips(self, loop: LoopTask) -> int | None:
        """How many turns a loop makes; None where only a run tells, by its inputs or its body, and
        none was measured.
        """
        made = self.made(loop)
        if made is None:
            return self.seen.get(loop.name)
        return max(made, 0) % loop.rest if loop.rest else made // loop.turn

    def made(self, loop: LoopTask) -> int | None:
        """How many trips of the body a loop and its rest make, where constants and sizes tell."""
        value = self.program.values.get(loop.trip)
        if value is None or loop.checked:
            return None
        if value.home == "shape" and value.dims:
            return int(evaluate_dim(value.dims[0], self.sizes))
        constant = self.constants.get(value.root) if value.home == "constant" else None
        if constant is None:
            return None
        return int(constant.array.reshape(-1)[evaluate_dim(value.offset, self.sizes)])

    def entered_us(self, loop: LoopTask) -> float:
        """The copies of the values that a loop carries, as they are before the first trip."""
        return sum(self.copy_us(c.param, c.initial) for c in loop.carried if c.initial)

    def turned(self, loop: LoopTask) -> tuple[int, float]:
        """From a turn's last brick to the next one's first: how often all units meet, and
        the time of the copies.
        """
        rows = [(s.row, s.value) for s in loop.stacked if s.value != s.row]
        meetings = 2 + bool(rows or any(c.staging for c in loop.carried))
        meetings += loop_needs_barrier(loop, self.program.values)
        copied = sum(self.copy_us(row, value) for row, value in rows)
        return meetings, copied + self.carried_us(loop)

    def looked(self, branch: BranchTask, made: int) -> int:
        """How often all units meet from before they look at what decides a branch to its first side
        (1) or second one (2).
        """
        return 1 + arm_needs_barrier(branch, made, self.program.values)

    def sided(self, branch: BranchTask, made: int) -> tuple[int, float]:
        """As `turned`, from the end of a branch's first side (1) or second one (2) on."""
        pairs = [(row[0], row[made]) for row in branch.results]
        parts = branch.then if made == 1 else branch.orelse
        copied = sum(self.copy_us(*pair) for pair in pairs)
        return bool(parts) + any(not self.is_there(*pair) for pair in pairs), copied

    def carried_us(self, loop: LoopTask) -> float:
        """The copies of what a loop carries, from one turn to the next."""
        pairs = [(c.staging, c.result) for c in loop.carried if c.staging]
        pairs += [(c.param, c.staging or c.result) for c in loop.carried]
        return sum(self.copy_us(target, source) for target, source in pairs)

    def copy_us(self, target: str, source: str) -> float:
        """All units copy a value together, a part each, through the memory that they share."""
        return 0.0 if self.is_there(target, source) else self.moved_us(target)

    def is_there(self, target: str, source: str) -> bool:
        """Whether a value lies where it shall be copied to."""
        return self.program.values[target].is_at(self.program.values[source])

    def moved_us(self, name: str) -> float:
        """The same wherever a value comes from."""
        count, known = self.extents.bytes(name), levels_of(self.device)
        level = known.levels[known.home(count, False)]
        return 2.0 * count / (level.bytes_per_us * known.units)
