"""The exercises, in the order of the course."""

from types import MappingProxyType

from explorer.course.exercise import Exercise
from explorer.course.exercises import (
    constants,
    double_negation,
    free_storage,
    large_values,
    loop_inside,
    measuring,
    own_operator,
    own_pass,
    pareto,
    provenance,
    vjp,
    wall,
    windows,
)

EXERCISES: MappingProxyType[str, Exercise] = MappingProxyType(
    {
        e.name: e
        for e in (
            provenance.EXERCISE,
            windows.EXERCISE,
            double_negation.EXERCISE,
            large_values.EXERCISE,
            pareto.EXERCISE,
            constants.EXERCISE,
            wall.EXERCISE,
            own_operator.EXERCISE,
            measuring.EXERCISE,
            loop_inside.EXERCISE,
            free_storage.EXERCISE,
            vjp.EXERCISE,
            own_pass.EXERCISE,
        )
    }
)

__all__ = ["EXERCISES"]
