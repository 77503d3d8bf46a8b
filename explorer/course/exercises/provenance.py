"""Exercise: a user's picture of the kernels that compute each operator of the model."""

from __future__ import annotations

from functools import cache
from typing import Any

from explorer.compiler.pipeline import compile
from explorer.course.exercise import Check, Exercise, require

SMALL = ("zoo:small_nerf", "zoo:small_looped_lstm")
LARGER = ("zoo:tiny_bert", "zoo:tiny_gpt2")


@cache
def _kernels(model: str) -> dict[str, set[str]]:
    """Return the kernels of each operator of a model, in the order of the model."""
    c = compile(model, until="planned")
    calls = c.program.kernel_calls
    return {s.name: {k.name for k in calls if s.name in k.origin} for s in c.program.sources}


def _record_rows(answer: Any, model: str) -> list[tuple[str, float]]:
    """Return the rows of the picture for a model."""
    c = compile(model, until="planned")
    return [(str(name), float(number)) for name, number in answer(c)]


def _rows(answer: Any, model: str) -> tuple[list[tuple[str, float]], dict[str, set[str]]]:
    rows = answer.run(_record_rows, model)
    is_valid = isinstance(rows, list) and all(
        isinstance(row, tuple) and [type(part) for part in row] == [str, float] for row in rows
    )
    require(is_valid, f"{model}: the rows are no pairs of a name and a number")
    return rows, _kernels(model)


def _check_counts(answer: Any, models: tuple[str, ...]) -> None:
    for model in models:
        rows, want = _rows(answer, model)
        for name, number in rows:
            require(name in want, f"{model}: it has no operator {name!r}")
            kernels = sorted(want[name])
            require(
                number == len(kernels),
                f"{model}, {name}: it shows {number:g}, and {len(kernels)} compute it: {kernels}",
            )


def _check_order(answer: Any, models: tuple[str, ...]) -> None:
    for model in models:
        rows, want = _rows(answer, model)
        names = [name for name, _ in rows]
        missing = [name for name in want if name not in names]
        require(not missing, f"{model}: no row for {', '.join(missing[:3])}")
        require(names == list(want), f"{model}: a row each is wanted, in the order of the model")


def _check_larger_models(answer: Any, seed: int) -> None:
    _check_counts(answer, LARGER)
    _check_order(answer, LARGER)


_HEAD = '''\
import widgets


@widgets.picture("kernels_of", title="Kernels of each operator", unit="kernels")
def kernels_of(c):
    """Return (name, number of kernels) of each source operator, in the order of the model."""
'''

PROVENANCE = Exercise(
    name="provenance",
    chapter="00_tour",
    title="Your picture: the kernels of each operator",
    goal="Write `kernels_of(c)`, which returns the rows of a picture. Each source operator of "
    "the model has a row, in order: its name and the number of kernels that compute a part "
    "of it. The number of an operator that was folded away is 0. `c.program.kernel_calls` are the "
    "calls of kernels, and each knows its `.origin`. Every explorer then has "
    "the picture as a tab with its table, and `widgets.show(c, 'kernels_of')` shows it "
    "alone.",
    answer="kernels_of",
    stub=_HEAD + "    raise NotImplementedError\n",
    solution=_HEAD
    + """\
    calls = c.program.kernel_calls
    return [(s.name, sum(s.name in call.origin for call in calls)) for s in c.program.sources]
""",
    hints=(
        "`c.program.sources` holds the operators, and `c.program.kernel_calls` the calls that "
        "remain after all steps.",
        "Each call has an `origin`: the set of the names of the source operators that it computes.",
        "A fused call has several operators in its origin, and an operator can be in several "
        "calls: count the calls that contain it.",
    ),
    checks=(
        Check("the numbers of two small models", 2, lambda a, seed: _check_counts(a, SMALL)),
        Check("each operator once, in order", 1, lambda a, seed: _check_order(a, SMALL)),
        Check("two other models", 2, _check_larger_models, True),
    ),
    exit_question="Why can one operator be part of several kernels?",
)
