"""Validation of passes: is the program still well formed, and does it compute the same values?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from explorer.errors import BadOperator, ShapeError
from explorer.ir.calls import MatchCast
from explorer.ir.dims import Sizes
from explorer.ir.dtypes import as_computed, dtype_of, is_float
from explorer.ir.program import Binding, Program
from explorer.ir.types import Tensor, numpy_dtype
from explorer.ops.interpreter.evaluate import Interpreter, bind_sizes, evaluate, without_gradients
from explorer.ops.interpreter.frame import NO_NEGATIVE, CallFrame
from explorer.ops.interpreter.verify import verify
from explorer.passes.random_inputs import random_inputs, trials, variations
from explorer.passes.unchecked import Unchecked

TOLERANCE_SHARE = 2e-4  # of the largest value: passes may reorder sums; chosen
SHAKEN_RUNS = 4  # each makes one of two equal values larger with probability 1/2; chosen
ROUNDINGS = 4  # of a program's narrowest type: passes may round at other points; chosen
Values = Mapping[str, np.ndarray]


@dataclass(eq=False)
class Trial:
    """One binding of the symbols, with inputs.

    `first` is the program before all passes, `last` the program run last with its values.
    """

    sizes: Sizes
    inputs: Values
    first: Program
    last: tuple[Program, Values]

    def values(self, program: Program) -> Values:
        """Return the outputs of a program on these inputs; each program is run once."""
        if self.last[0] is not program:
            self.last = (program, evaluate(program, self.inputs))
        return self.last[1]

    def uncertain_outputs(self, tolerance: float) -> set[str]:
        """Return the outputs of the first program that depend on rounding.

        A correct pass may change which of two values is larger if they are equal but for the last
        bit.
        """
        values = evaluate(self.first, self.inputs)
        uncertain: set[str] = set()
        for seed in range(SHAKEN_RUNS):
            try:
                shaken = perturbed_values(self.first, self.inputs, seed)
            except Exception:  # rounding decides whether there are values at all
                return set(values)
            pairs = ((n, {n: v}, {n: shaken[n]}) for n, v in values.items())
            uncertain |= {n for n, old, new in pairs if difference(old, new, tolerance)}
        return uncertain

    def fits(self, program: Program) -> bool:
        """Return True unless the program states bounds that exclude these sizes."""
        return all(
            bound.low <= size and (bound.high is None or size <= bound.high)
            for name, size in self.sizes.items()
            for bound in [program.env.of(name)]
        )


class RefusedSizes:
    """The verdict on sizes that a pass excluded."""


class Validation:
    """Runs of programs on the same random inputs, under several bindings of their symbols.

    Sizes are tried until the first program accepts them; then others are added, odd where these are
    even, and the least ones.
    """

    def __init__(self, program: Program) -> None:
        """Create trials for the first program."""
        self.program, self.candidates = program, trials(program)
        self.trials: list[Trial] = []
        self.failure: BadOperator | None = None  # of a run of the first program
        self.add_trials()

    def add_trials(self) -> bool:
        """Add the next sizes that the first program takes; return False if there are none left."""
        for sizes in self.candidates:
            if (trial := self.trial(sizes)) is not None:
                others = [self.trial(other) for other in variations(self.program, sizes)]
                self.trials += [trial, *(other for other in others if other is not None)]
                return True
        return False

    def trial(self, sizes: Sizes) -> Trial | None:
        """Run the first program; return None if the sizes do not fit each other or it fails."""
        try:
            inputs = random_inputs(self.program, sizes)
            return Trial(
                sizes, inputs, self.program, (self.program, evaluate(self.program, inputs))
            )
        except BadOperator as problem:
            self.failure = self.failure or problem
        except Exception:  # of a model that takes other inputs
            pass
        return None

    @property
    def unchecked(self) -> Unchecked | None:
        """Why values cannot be compared: the reference of a user's operator fails."""
        if self.failure is None:
            return None
        return Unchecked(f"could not be checked, because {self.failure.sentence}")

    def of(self, before: Program, after: Program) -> None | bool | str:
        """Compare a pass's result with its input.

        Returns True, a sentence on what the pass broke, or None if values cannot decide: an earlier
        pass broke the program, or the model does not take random inputs. An `Unchecked` says that
        the reference of a user's operator fails.
        """
        if after is not before and (fault := _fault(after)) and fault != _fault(before):
            return fault
        verdicts = self.verdicts(before, after)
        while not self.trials and self.add_trials():
            verdicts = self.verdicts(before, after)
        faults = [v for v in verdicts if isinstance(v, str)]
        if faults:
            return faults[0]
        if self.unchecked is not None:
            return None if after is before else self.unchecked
        return True if True in verdicts else None

    def verdicts(self, before: Program, after: Program) -> list[None | bool | str]:
        """Compare two programs in each trial; drop the trials whose sizes the second refuses."""
        verdict_of = [(t, _verdict(t, before, after)) for t in self.trials if t.fits(after)]
        refused = [t for t, verdict in verdict_of if isinstance(verdict, RefusedSizes)]
        self.trials = [t for t in self.trials if t not in refused]
        return [verdict for _, verdict in verdict_of if not isinstance(verdict, RefusedSizes)]


def _verdict(trial: Trial, before: Program, after: Program) -> None | bool | str | RefusedSizes:
    """Compare two programs in one trial, as `Validation.of` does in all."""
    try:
        old = trial.values(before)
    except Exception:
        return None
    try:
        return compare(trial, old, trial.values(after), after)
    except ShapeError as problem:
        refuses = problem.expected == NO_NEGATIVE or problem.where not in _results(before, after)
        return RefusedSizes() if refuses else describe(problem)
    except Exception as problem:  # running a broken program may raise anything
        return describe(problem)


def compare(trial: Trial, old: Values, new: Values, program: Program) -> None | bool | str:
    """Return True for equal outputs, their difference, or None if rounding decides."""
    tolerance = _tolerance(program)
    mismatch = difference(old, new, tolerance)
    if not mismatch or list(old) != list(new):
        return mismatch or True
    unsure = trial.uncertain_outputs(tolerance)
    old, new = ({n: v for n, v in vs.items() if n not in unsure} for vs in (old, new))
    return difference(old, new, tolerance) or None


def _results(before: Program, after: Program) -> set[str]:
    """Return the values of `after`, without what its new match_casts state of the arguments."""
    stated = _cast_values(after) - _cast_values(before)
    return {v.name for _, b in after.bindings() for v in b.vars} - stated


def _cast_values(program: Program) -> set[str]:
    bindings = (b for _, b in program.bindings() if isinstance(b.expr, MatchCast))
    return {v.name for b in bindings for v in b.vars}


def _tolerance(program: Program) -> float:
    """Return the tolerated difference as a share of the largest value.

    It is a few roundings of the narrowest type that kernels compute in.
    """
    types = (v.type for _, b in program.bindings() for v in b.vars)
    narrow = {
        t.dtype for t in types if isinstance(t, Tensor) and t.dtype in ("float16", "bfloat16")
    }
    units = (float(ml_dtypes.finfo(numpy_dtype(dtype)).eps) / 2 for dtype in narrow)  # type: ignore[no-untyped-call]
    return max((TOLERANCE_SHARE, *(ROUNDINGS * unit for unit in units)))


def describe(problem: Exception) -> str:
    """Return the kind of an error and its words."""
    return f"{type(problem).__name__}: {problem}"


def _fault(program: Program) -> str:
    """Return why a program is not well formed, "" if it is."""
    try:
        verify(program)
    except Exception as problem:
        return describe(problem)
    return ""


class _PerturbedInterpreter(Interpreter):
    """An interpreter that rounds each result up or down by a bit at random, as a pass might."""

    def __init__(self, program: Program, sizes: Sizes, seed: int) -> None:
        """Create an interpreter with a seed."""
        super().__init__(program, sizes)
        self.draws = np.random.default_rng(seed)

    def binding(self, binding: Binding, values: Values, frame: CallFrame) -> Sequence[np.ndarray]:
        """Evaluate a binding and perturb its results."""
        return [self.perturb(a) for a in super().binding(binding, values, frame)]

    def perturb(self, value: np.ndarray) -> np.ndarray:
        """Return the value with other last bits; whole numbers are exact and stay."""
        if not isinstance(value, np.ndarray) or not is_float(dtype_of(value)):
            return value
        up = self.draws.random(value.shape) < 0.5
        near = np.nextafter(value, np.where(up, np.inf, -np.inf).astype(value.dtype))
        return np.where(value == np.rint(value), value, near)


def perturbed_values(program: Program, inputs: Values, seed: int) -> Values:
    """Return the outputs of a program with every value, of inputs too, off by its last bit."""
    program = without_gradients(program)
    run = _PerturbedInterpreter(program, bind_sizes(program, inputs), seed)
    return run.outputs({p.name: run.perturb(inputs[p.name]) for p in program.main.params})


def difference(before: Values, after: Values, tolerance: float = TOLERANCE_SHARE) -> str:
    """Describe where two sets of outputs differ by more than a share of the largest value.

    Returns "" if they agree.
    """
    if list(before) != list(after):
        return f"the outputs were {', '.join(before)} and are {', '.join(after)}"
    for name, old in before.items():
        new = after[name]
        rows = new.shape[: old.ndim] == old.shape or old.shape[:1] == new.shape[:1] == (0,)
        if rows and new.dtype == old.dtype and not old.size and not new.size:
            continue  # a loop without iterations: the shape of its rows is checked later
        if old.shape != new.shape or old.dtype != new.dtype:
            return f"{name} was {old.dtype}{list(old.shape)} and is {new.dtype}{list(new.shape)}"
        problem = _describe_values(old, new, tolerance)
        if problem:
            return f"{name}: {problem}"
    return ""


def _describe_values(old: np.ndarray, new: np.ndarray, tolerance: float) -> str:
    if not is_float(dtype_of(old)):
        wrong = np.count_nonzero(old != new)
        return f"{wrong} of {old.size} values differ" if wrong else ""
    old, new = as_computed(old), as_computed(new)
    if not np.array_equal(np.isfinite(old), np.isfinite(new)):
        return "NaN or infinity at other places"
    finite = np.isfinite(old)
    if not finite.any():
        return ""
    a, b = old[finite].astype(np.float64), new[finite].astype(np.float64)
    gap, scale = float(np.abs(a - b).max()), float(np.abs(a).max())
    return (
        f"largest difference {gap:.3g}, largest value {scale:.3g}"
        if gap > tolerance * scale
        else ""
    )
