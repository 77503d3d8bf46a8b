"""What a plan knows of what happens between launches and between trips, and how long that takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from explorer.cost.levels import levels_of
from explorer.devices.model import Device
from explorer.grinder import LibraryTask, LoopTask, UProgram
from explorer.ir.program import Constant
from explorer.ir.shapes.dims import Sizes, evaluate_dim
from explorer.rammer import Overheads
from explorer.runtime.planning.extents import Extents
from explorer.runtime.planning.task_times import TaskFact

LibraryFacts: TypeAlias = Callable[[LibraryTask, Extents], TaskFact]


def no_time(task: LibraryTask, extents: Extents) -> TaskFact:
    """Of a plan that is made for its arena alone."""
    return TaskFact(1, 0.0)


@dataclass(frozen=True, slots=True)
class HostSteps:
    """Between launches and trips, under one binding.

    `seen`: trips that loops were measured to make. `overheads` None: schedules count launches.
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
        """How many trips a loop makes; None where only a run tells, by its inputs or its body, and
        none was measured.
        """
        value = self.program.values.get(loop.trip)
        if value is None or loop.checked:
            return self.seen.get(loop.name)
        if value.home == "shape" and value.dims:
            return int(evaluate_dim(value.dims[0], self.sizes))
        constant = self.constants.get(value.root) if value.home == "constant" else None
        if constant is None:
            return self.seen.get(loop.name)
        return int(constant.array.reshape(-1)[evaluate_dim(value.offset, self.sizes)])

    def copy_us(self, target: str, source: str) -> float:
        """All units copy a value together, a part each, through the memory that they share."""
        if self.program.values[target].is_at(self.program.values[source]):
            return 0.0
        count, known = self.extents.bytes(target), levels_of(self.device)
        level = known.levels[known.home(count, False)]
        return 2.0 * count / (level.bytes_per_us * known.units)
