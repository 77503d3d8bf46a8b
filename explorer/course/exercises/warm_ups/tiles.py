"""Warm-ups of chapter 04."""

from __future__ import annotations

from random import Random
from typing import Any

from explorer.course.exercise import Check, Exercise, require


def _check_reads(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for _ in range(20):
        rows, columns = draw.randint(1, 64), draw.randint(1, 64)
        right, got = 1 / rows + 1 / columns, answer(rows, columns)
        require(
            isinstance(got, (int, float)) and abs(got - right) < 1e-9,
            f"{rows} x {columns}: {right:.4f} elements are read per multiply-add, not {got!r}",
        )


READS = Exercise(
    name="reads",
    chapter="04_tiles",
    title="Elements that a tile reads",
    activity="fill in",
    minutes=5,
    goal="A tile of `rows` x `columns` results of a product reads `rows` elements of the left "
    "operand and `columns` of the right one for each step along the reduction axis. Fill in the "
    "blank: how many elements does it read per multiply-add?",
    answer="reads",
    stub="def reads(rows, columns):\n    return ... / (rows * columns)\n",
    solution="def reads(rows, columns):\n    return (rows + columns) / (rows * columns)\n",
    hints=("One step reads a column of the left operand and a row of the right one.",),
    checks=(Check("random tiles", 1, _check_reads),),
)

WARM_UPS = (READS,)
