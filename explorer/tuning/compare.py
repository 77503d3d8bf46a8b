"""Comparison of two compilations on the same inputs."""

from __future__ import annotations

from explorer.compilation import Compilation
from explorer.compilation.inputs import Inputs
from explorer.errors import AnswerMismatch
from explorer.measure.compare import Comparison
from explorer.measure.compare import compare as compare_work
from explorer.tuning.answers import agree


def compare(
    first: Compilation, second: Compilation, inputs: Inputs, seconds: float = 2.0
) -> Comparison:
    """Compare the times of two compilations after checking that their outputs agree.

    Raises:
        AnswerMismatch: an output differs by more than 1e-4 of its largest element.
    """
    ours, theirs = first.run(inputs), second.run(inputs)
    for name, value in ours.items():
        other = theirs.get(name)
        if other is None or not agree(value, other):
            raise AnswerMismatch(f"the two compilations differ at the output {name!r}", where=name)
    return compare_work(
        lambda: first.runnable.run(first.named(inputs)),
        lambda: second.runnable.run(second.named(inputs)),
        seconds,
    )
