"""Comparisons: of two compilations on the same inputs, of outputs, and of Rammer's policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.compiler.inputs import Inputs
from explorer.errors import AnswerMismatch
from explorer.ir.decisions.wall import Wait, Wall
from explorer.ir.dims import Sizes
from explorer.measure.compare import Comparison
from explorer.measure.compare import compare as compare_work
from explorer.process.cancellation import report_progress
from explorer.process.garbage import rare_collections
from explorer.rammer import POLICIES, Policy, Schedule
from explorer.rammer.model import Weighed
from explorer.rammer.wall_statistics import WallStatistics, wall_statistics

TOLERANCE_SHARE = 1e-4  # of the largest answer; chosen
LEAST_ANSWER = 1e-30  # the largest answer counts as at least this
BASELINE = "op-by-op"  # two-layer scheduling


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


def agree(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Return True if two arrays agree to 1e-4 of the largest finite element.

    If all elements are smaller than 1e-30, that counts as the largest. NaN agrees with NaN.
    Integers and bools must be equal.
    """
    if ours.shape != theirs.shape or ours.dtype.kind != theirs.dtype.kind:
        return False
    if ours.dtype.kind != "f":
        return bool(np.array_equal(ours, theirs))
    return largest_error(ours, theirs) <= TOLERANCE_SHARE * max(largest(theirs), LEAST_ANSWER)


def largest(array: np.ndarray) -> float:
    """Return the largest finite magnitude, 0 if there is none."""
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    return float(np.abs(finite.astype(np.float64)).max(initial=0.0))


def largest_error(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the largest difference of two arrays of one shape.

    It is infinite where only one element is NaN or infinite.
    """
    return float(_errors(ours, theirs).max(initial=0.0))


def check_answers(
    ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray], name: str
) -> float:
    """Return the largest error over all outputs of another runtime.

    Raises:
        AnswerMismatch: an output differs; it names the element that differs most.
    """
    for output, value in ours.items():
        other = theirs.get(output)
        if other is None:
            raise AnswerMismatch(f"{name} returns no output {output!r}", where=output)
        if not agree(value, other):
            difference = _describe_difference(value, other)
            raise AnswerMismatch(
                f"ironworks and {name} differ at the output {output!r}: {difference}",
                where=output,
                expected=f"at most {TOLERANCE_SHARE:g} of the largest answer",
                try_="diverges() of the compilation, which names the first operator that differs",
            )
    return max((largest_error(value, theirs[output]) for output, value in ours.items()), default=0)


def _errors(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(a - b))
    return np.where(np.isnan(gap), np.inf, gap)


def _describe_difference(ours: np.ndarray, theirs: np.ndarray) -> str:
    if ours.shape != theirs.shape or ours.dtype.kind != theirs.dtype.kind:
        return f"{ours.dtype}{list(ours.shape)} and {theirs.dtype}{list(theirs.shape)}"
    errors = _errors(ours, theirs)
    worst = np.unravel_index(int(errors.argmax()), errors.shape)
    place = ", ".join(str(int(i)) for i in worst)
    return f"{ours[worst]:.6g} and {theirs[worst]:.6g} at [{place}]"


@dataclass(frozen=True, slots=True)
class PolicyWall:
    """A model under one policy, planned for a machine or simulated on a data sheet."""

    policy: str
    statistics: WallStatistics
    wall: Wall
    schedules: tuple[Schedule, ...]

    @property
    def barriers(self) -> int:
        """The number of waits of one unit for another.

        The instructions are generated to count them: on hundreds of units there are millions.
        """
        programs = (p for s in self.schedules for p in s.programs)
        return sum(isinstance(row, Wait) for p in programs for rows in p.units for row in rows)

    @property
    def weighed(self) -> tuple[Weighed, ...]:
        """The candidates that the policy compared: merges of waves, and kernels, with times."""
        return tuple(c for s in self.schedules for c in s.placement.weighed)


def compare_policies(
    c: Compilation,
    policies: Sequence[str | Policy] | None = None,
    sizes: Sizes | None = None,
    progress: Callable[[str], None] | None = None,
) -> tuple[PolicyWall, ...]:
    """Plan a binding under each policy, in this order; by default under all policies.

    Nothing runs. `progress` is called with each policy before its wall is planned.

    Raises:
        BadOption: a policy is unknown.
    """
    walls = []
    requested = tuple(POLICIES) if policies is None else policies
    for n, policy in enumerate(requested):
        options = replace(c.options.rammer, policy=policy)
        report_progress("schedule under each policy", n, len(requested))
        if progress is not None:
            progress(options.policy_name)
        other = c if options == c.options.rammer else c.with_options(rammer=options)
        walls.append(policy_wall(other, sizes))
    return tuple(walls)


def policy_wall(c: Compilation, sizes: Sizes | None = None) -> PolicyWall:
    """Plan a compilation under its own policy."""
    with rare_collections():  # a wall of many units is a million bricks and gaps
        wall, schedules = c.planned_wall(sizes), c.schedules(sizes)
    per_core = schedules[0].facts.device.per_core if schedules else 1
    return PolicyWall(wall.policy, wall_statistics(wall, per_core), wall, schedules)
