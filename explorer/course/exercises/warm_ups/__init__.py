"""Small exercises before the large one of each chapter, from two minutes to twenty."""

from explorer.course.exercises.warm_ups import (
    capstone,
    code_generation,
    control_flow,
    cost_models,
    decode,
    dynamic_shapes,
    fusion,
    graphs,
    measuring,
    rewriting,
    schedules,
    tiles,
    tour,
    training,
)

WARM_UPS = tuple(
    e
    for chapter in (
        tour,
        graphs,
        rewriting,
        fusion,
        tiles,
        cost_models,
        schedules,
        code_generation,
        measuring,
        control_flow,
        dynamic_shapes,
        decode,
        training,
        capstone,
    )
    for e in chapter.WARM_UPS
)

__all__ = ["WARM_UPS"]
