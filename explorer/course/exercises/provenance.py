"""Which kernel computes an operator of the model."""

from __future__ import annotations

from typing import Any

from explorer.compiler import compile
from explorer.course.exercise import Check, Exercise, require

SMALL = ("zoo:small_nerf", "zoo:tiny_skip")
LARGER = ("zoo:tiny_bert", "zoo:tiny_resnet18")


def _all_operators(answer: Any, models: tuple[str, ...]) -> None:
    for model in models:
        c = compile(model, until="planned")
        for source in c.program.sources:
            want = {b.name for b in c.program.kernel_calls if source.name in b.origin}
            got = answer(c, source.name)
            same = set(got) == want
            require(same, f"{model}, {source.name}: expected {sorted(want)}, found {sorted(got)}")


def _unknown(answer: Any, seed: int) -> None:
    c = compile(SMALL[0], until="planned")
    require(not answer(c, "no such operator"), "an operator that is not there has no kernel")


EXERCISE = Exercise(
    name="provenance",
    chapter="00_tour",
    title="From an operator to its kernels",
    goal="Write `kernels_of(c, name)`: the set of names of the kernel calls that a source "
    "operator of "
    "the model became part of. An operator that was folded away has none.",
    answer="kernels_of",
    stub='''\
def kernels_of(c, name):
    """The names of the kernel calls that the source operator `name` is part of."""
    raise NotImplementedError
''',
    solution='''\
def kernels_of(c, name):
    """The names of the kernel calls that the source operator `name` is part of."""
    return {call.name for call in c.program.kernel_calls if name in call.origin}
''',
    hints=(
        "`c.program.kernel_calls` are the calls that are left after every step.",
        "Each call has an `origin`: the set of the source operators that it computes.",
        "A welded call has several operators in its origin, and an operator may be in "
        "several calls.",
    ),
    checks=(
        Check("every operator of two small models", 2, lambda a, seed: _all_operators(a, SMALL)),
        Check("an operator that is not there", 1, _unknown),
        Check(
            "every operator of two other models", 2, lambda a, s: _all_operators(a, LARGER), True
        ),
    ),
    exit_question="Why may one operator be part of several kernels?",
)
