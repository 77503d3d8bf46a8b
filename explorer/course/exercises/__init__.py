"""The exercises, in the order of the course."""

from types import MappingProxyType

from explorer.course.exercise import Exercise
from explorer.course.exercises import (
    double_negation,
    loop_inside,
    measuring,
    own_operator,
    provenance,
    size_classes,
    vjp,
    wall,
)

EXERCISES: MappingProxyType[str, Exercise] = MappingProxyType(
    {
        e.name: e
        for e in (
            provenance.EXERCISE,
            size_classes.EXERCISE,
            wall.EXERCISE,
            loop_inside.EXERCISE,
            double_negation.EXERCISE,
            own_operator.EXERCISE,
            measuring.EXERCISE,
            vjp.EXERCISE,
        )
    }
)

__all__ = ["EXERCISES"]
