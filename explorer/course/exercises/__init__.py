"""The exercises, in the order of the course; a module has those of related chapters."""

from types import MappingProxyType

from explorer.course.exercise import Exercise
from explorer.course.exercises import (
    bits_of_layers,
    fusion_and_tiles,
    loop_inside,
    own_operators,
    own_passes,
    provenance,
    schedules_and_memory,
    times,
)
from explorer.course.exercises.warm_ups import WARM_UPS

EXERCISES: MappingProxyType[str, Exercise] = MappingProxyType(
    {
        e.name: e
        for e in sorted(
            (
                *WARM_UPS,
                provenance.PROVENANCE,
                own_operators.WINDOWS,
                own_passes.DOUBLE_NEGATION,
                fusion_and_tiles.LARGE_VALUES,
                fusion_and_tiles.PARETO,
                times.CONSTANTS,
                schedules_and_memory.WALL,
                own_operators.OWN_OPERATOR,
                times.MEASURING,
                loop_inside.LOOP_INSIDE,
                schedules_and_memory.FREE_STORAGE,
                bits_of_layers.BITS,
                own_operators.VJP,
                own_passes.OWN_PASS,
            ),
            key=lambda e: e.chapter,
        )
    }
)

__all__ = ["EXERCISES"]
