"""Is a program after a pass well formed, and does it compute what the program before it did?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from explorer.errors import ShapeError
from explorer.ir.calls import MatchCast
from explorer.ir.dtypes import as_computed, dtype_of, is_float
from explorer.ir.program import Binding, Program
from explorer.ir.shapes.dims import Sizes
from explorer.ir.types import Tensor, numpy_dtype
from explorer.ops.reference.evaluate import Interpreter, bind_sizes, evaluate
from explorer.ops.reference.frame import NO_NEGATIVE, Frame
from explorer.ops.reference.gradients import without_gradients
from explorer.ops.reference.verify import verify
from explorer.passes.pipeline.random_inputs import random_inputs, trials, variations

TOLERANCE_SHARE = 2e-4  # of the largest value: passes may change the order of sums; chosen
SHAKEN_RUNS = 4  # of two equal values one gets larger in each with a chance of a half; chosen
ROUNDINGS = 4  # of the narrowest type of a program: passes may round sooner or later; chosen
Values = Mapping[str, np.ndarray]


@dataclass(eq=False)
class Trial:
    """One binding of the symbols, with inputs; `first` is the program before all passes, `last`
    the one run last and its values.
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

    def unsure(self, tolerance: float) -> set[str]:
        """Return the outputs of the first program that rounding decides: of two values that are
        equal but for the last bit a sound pass may make the other the larger one.
        """
        values = evaluate(self.first, self.inputs)
        found: set[str] = set()
        for seed in range(SHAKEN_RUNS):
            try:
                shaken = shaken_values(self.first, self.inputs, seed)
            except Exception:  # rounding decides whether there are values at all
                return set(values)
            one = ((n, {n: v}, {n: shaken[n]}) for n, v in values.items())
            found |= {n for n, old, new in one if difference(old, new, tolerance)}
        return found

    def fits(self, program: Program) -> bool:
        """Return True unless the program states bounds that exclude these sizes."""
        return all(
            bound.low <= size and (bound.high is None or size <= bound.high)
            for name, size in self.sizes.items()
            for bound in [program.env.of(name)]
        )


class Refused:
    """The verdict on sizes that a pass found the program not to take."""


class Validation:
    """Runs programs on the same random inputs, under several bindings of their symbols.

    Sizes are tried until the first program takes them; then others beside them, odd where these
    are even, and the least.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.candidates = program, trials(program)
        self.trials: list[Trial] = []
        self.add_trials()

    def add_trials(self) -> bool:
        """Add the next sizes that the first program takes; return False if there are none left."""
        for sizes in self.candidates:
            if (trial := _trial(self.program, sizes)) is not None:
                others = (_trial(self.program, other) for other in variations(self.program, sizes))
                self.trials += [trial, *(other for other in others if other is not None)]
                return True
        return False

    def of(self, before: Program, after: Program) -> None | bool | str:
        """True, or one sentence on what a pass broke; None where the values cannot tell, as where
        an earlier pass has left a program that nobody can run, or the model cannot be run itself.
        """
        if after is not before and (fault := _fault(after)) and fault != _fault(before):
            return fault
        verdicts = self.verdicts(before, after)
        while not self.trials and self.add_trials():
            verdicts = self.verdicts(before, after)
        said = [v for v in verdicts if isinstance(v, str)]
        return said[0] if said else (True if True in verdicts else None)

    def verdicts(self, before: Program, after: Program) -> list[None | bool | str]:
        """Compare two programs in each trial; drop the trials whose sizes the second refuses."""
        found = [(t, _verdict(t, before, after)) for t in self.trials if t.fits(after)]
        refused = [t for t, verdict in found if isinstance(verdict, Refused)]
        self.trials = [t for t in self.trials if t not in refused]
        return [verdict for _, verdict in found if not isinstance(verdict, Refused)]


def _trial(program: Program, sizes: Sizes) -> Trial | None:
    """The values of the first program; None where the sizes do not fit each other, or the model is
    broken as it is.
    """
    try:
        inputs = random_inputs(program, sizes)
        return Trial(sizes, inputs, program, (program, evaluate(program, inputs)))
    except Exception:
        return None


def _verdict(trial: Trial, before: Program, after: Program) -> None | bool | str | Refused:
    """Compare two programs in one trial, as `Validation.of` does in all."""
    try:
        old = trial.values(before)
    except Exception:
        return None
    try:
        tolerance = _tolerance(after)
        new = trial.values(after)
        found = difference(old, new, tolerance)
        if not found or list(old) != list(new):
            return found or True
        unsure = trial.unsure(tolerance)
        old, new = ({n: v for n, v in vs.items() if n not in unsure} for vs in (old, new))
        return difference(old, new, tolerance) or None
    except ShapeError as problem:
        refuses = problem.expected == NO_NEGATIVE or problem.where not in _results(before, after)
        return Refused() if refuses else _said(problem)
    except Exception as problem:  # what a broken program does when it runs is anybody's guess
        return _said(problem)


def _results(before: Program, after: Program) -> set[str]:
    """Return the values of `after`, without what its new match_casts state of the arguments."""
    stated = _casts(after) - _casts(before)
    return {v.name for _, b in after.bindings() for v in b.vars} - stated


def _casts(program: Program) -> set[str]:
    bindings = (b for _, b in program.bindings() if isinstance(b.expr, MatchCast))
    return {v.name for b in bindings for v in b.vars}


def _tolerance(program: Program) -> float:
    """How far values may differ, as a share of the largest: a few roundings of the narrowest type
    that kernels compute through.
    """
    types = (v.type for _, b in program.bindings() for v in b.vars)
    narrow = {
        t.dtype for t in types if isinstance(t, Tensor) and t.dtype in ("float16", "bfloat16")
    }
    units = (float(ml_dtypes.finfo(numpy_dtype(dtype)).eps) / 2 for dtype in narrow)  # type: ignore[no-untyped-call]
    return max((TOLERANCE_SHARE, *(ROUNDINGS * unit for unit in units)))


def _said(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"


def _fault(program: Program) -> str:
    """What is not well formed, empty where all is."""
    try:
        verify(program)
    except Exception as problem:
        return _said(problem)
    return ""


class _Shaken(Interpreter):
    """Each result is rounded up or down by a bit at random, as a sound pass may round it."""

    def __init__(self, program: Program, sizes: Sizes, seed: int) -> None:
        super().__init__(program, sizes)
        self.draws = np.random.default_rng(seed)

    def binding(self, binding: Binding, values: Values, frame: Frame) -> Sequence[np.ndarray]:
        return [self.shaken(a) for a in super().binding(binding, values, frame)]

    def shaken(self, value: np.ndarray) -> np.ndarray:
        """Return the value with other last bits; whole numbers are exact and stay."""
        if not isinstance(value, np.ndarray) or not is_float(dtype_of(value)):
            return value
        up = self.draws.random(value.shape) < 0.5
        near = np.nextafter(value, np.where(up, np.inf, -np.inf).astype(value.dtype))
        return np.where(value == np.rint(value), value, near)


def shaken_values(program: Program, inputs: Values, seed: int) -> Values:
    """Return the outputs of a program with every value, of inputs too, off by its last bit."""
    program = without_gradients(program)
    run = _Shaken(program, bind_sizes(program, inputs), seed)
    main = program.main
    found = run.run(main, [run.shaken(inputs[p.name]) for p in main.params])
    names = main.output_names or tuple(v.name for v in main.outputs)
    return dict(zip(names, found, strict=True))


def difference(before: Values, after: Values, tolerance: float = TOLERANCE_SHARE) -> str:
    """Where two sets of outputs differ by more than a share of the largest value, in words; empty
    where they agree.
    """
    if list(before) != list(after):
        return f"the outputs were {', '.join(before)} and are {', '.join(after)}"
    for name, old in before.items():
        new = after[name]
        rows = new.shape[: old.ndim] == old.shape or old.shape[:1] == new.shape[:1] == (0,)
        if rows and new.dtype == old.dtype and not old.size and not new.size:
            continue  # a loop without an iteration: what is deduced of its rows is told later
        if old.shape != new.shape or old.dtype != new.dtype:
            return f"{name} was {old.dtype}{list(old.shape)} and is {new.dtype}{list(new.shape)}"
        problem = _values_differ(old, new, tolerance)
        if problem:
            return f"{name}: {problem}"
    return ""


def _values_differ(old: np.ndarray, new: np.ndarray, tolerance: float) -> str:
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
