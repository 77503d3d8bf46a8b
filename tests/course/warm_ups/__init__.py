"""Right and wrong answers to warm-ups, by exercise and by what is right or wrong of them."""

from tests.course.warm_ups import (
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

_CHAPTERS = (
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
RIGHT = {name: texts for chapter in _CHAPTERS for name, texts in chapter.RIGHT.items()}
WRONG = {name: texts for chapter in _CHAPTERS for name, texts in chapter.WRONG.items()}
