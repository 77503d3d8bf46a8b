"""Compiled programs for each kind of batch: sync-free and ordinary steps, and validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol, TypeAlias

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile as compiled
from explorer.errors import BadOption, DtypeError
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.structure import flatten, holds_complex, rebuild
from explorer.ir.types import Tensor, dtype_of
from explorer.process.counters import counters
from explorer.training.fitted import Timeline
from explorer.training.step import Optimizer, Recipe, gradients_of, step_of
from explorer.training.tree import each, leaves

Batch = tuple[Any, ...]
Signature = tuple[tuple[tuple[int, ...], str], ...]
Data: TypeAlias = Iterable[Any] | Callable[[int], Iterable[Any]]  # batches, or those of an epoch


@dataclass(frozen=True, slots=True)
class Setting:
    """The computation of a step and its compile options."""

    recipe: Recipe
    optimizer: Optimizer
    options: Options | None


@dataclass(frozen=True, slots=True)
class StepInputs:
    """The inputs of a step's compilation: a setting, the current arrays, and a sample batch."""

    setting: Setting
    params: Any
    state: Any
    numbers: Mapping[str, np.ndarray]
    batch: Batch
    cancelled: Callable[[], bool]


def signature(batch: Batch) -> Signature:
    """Return the shapes and dtypes of a batch."""
    return tuple((np.shape(a), str(np.asarray(a).dtype)) for a in leaves(batch))


def declared(tree: Any) -> Any:
    """Return the types of nested arrays; DtypeError for complex ones."""
    if holds_complex(flatten(tree)[1]):
        raise DtypeError(
            "a parameter or a batch is complex, and training takes real arrays",
            expected="real arrays",
            try_="real and imaginary parts, and real + 1j * imag in the loss",
        )
    return each(lambda a: Tensor(np.shape(a), dtype_of(np.asarray(a))), tree)


class TrainingStep(Protocol):
    """A step for one kind of batch: updates parameters and state in place, returns the loss.

    `program` is the whole step; if the update is separate, the program of the gradients, or the
    first of several.
    """

    program: Compilation

    def __call__(
        self, arrays: list[np.ndarray], numbers: Mapping[str, np.ndarray], batch: Batch, number: int
    ) -> np.ndarray:
        """Run the step and return the loss."""


class SyncFree:
    """A step as one program without decisions of the host; parameters and state are donated."""

    def __init__(self, at: StepInputs) -> None:
        """Trace and compile the step."""
        step = step_of(at.setting.recipe, at.setting.optimizer)

        def train(params: Any, state: Any, numbers: Any, batch: Any) -> Any:
            return step(params, state, numbers, *batch)

        model = trace(train)(*map(declared, (at.params, at.state, at.numbers, at.batch)))
        names = [p.name for p in model.program.main.params]
        donated = names[: len(leaves((at.params, at.state)))]
        self.program: Compilation = compiled(
            model, options=at.setting.options, donate=donated, cancelled=at.cancelled
        )

    def __call__(
        self, arrays: list[np.ndarray], numbers: Mapping[str, np.ndarray], batch: Batch, number: int
    ) -> np.ndarray:
        """Run the step in place and return the loss."""
        *after, value = self.program.run(*arrays, *numbers.values(), *leaves(batch)).values()
        arrays[:] = after
        return value


class Ordinary:
    """The step without sync-free optimizers, for comparison.

    Gradients and update are two programs; between them the host reads whether the gradients are
    finite.
    """

    def __init__(self, at: StepInputs, timeline: Timeline) -> None:
        """Trace and compile both programs."""
        recipe, optimizer = at.setting.recipe, at.setting.optimizer
        self.scale, self.timeline = recipe.scale, timeline
        self.count, self.nesting = len(leaves(at.params)), flatten((at.params, at.state))[1]
        factor = np.ones((), np.float32)

        def gradients(params: Any, factor: Any, numbers: Any, batch: Any) -> Any:
            return gradients_of(recipe, params, factor, numbers, batch)

        def update(params: Any, grads: Any, state: Any, numbers: Any) -> Any:
            return optimizer.update(params, grads, state, numbers, np.bool_(False))

        first = trace(gradients)(*map(declared, (at.params, factor, at.numbers, at.batch)))
        own, options = at.state["optimizer"], at.setting.options
        second = trace(update)(*map(declared, (at.params, at.params, own, at.numbers)))
        self.program = compiled(first, options=options, cancelled=at.cancelled)
        names = [p.name for p in second.program.main.params]
        moved = [*names[: self.count], *names[2 * self.count :][: len(leaves(own))]]
        self.update = compiled(second, options=options, donate=moved, cancelled=at.cancelled)

    def __call__(
        self, arrays: list[np.ndarray], numbers: Mapping[str, np.ndarray], batch: Batch, number: int
    ) -> np.ndarray:
        """Run the step and return the loss; skip the update if a gradient is not finite."""
        _, state = rebuild(self.nesting, arrays)
        factor = state["scale"]["scale"] if self.scale else np.ones((), np.float32)
        params, data = arrays[: self.count], (*numbers.values(),)
        value, *grads, overflowed = self.program.run(
            *params, factor, *data, *leaves(batch)
        ).values()
        with self.timeline.span("main", "read", number):
            counters.add("host_reads")
            skipped = bool(overflowed)
        own = leaves(state["optimizer"])
        if not skipped:
            after = list(self.update.run(*params, *grads, *own, *data).values())
            arrays[: self.count + len(own)] = after
        if self.scale:
            scale_state = self.scale.update(state["scale"], np.bool_(skipped))
            arrays[self.count + len(own) :] = [np.asarray(a) for a in leaves(scale_state)]
        return value


class Programs:
    """The steps of each kind of batch, compiled ahead by a background thread."""

    def __init__(
        self, make: Callable[[Batch, Callable[[], bool]], TrainingStep], timeline: Timeline
    ) -> None:
        """Create an empty cache of steps built by `make`."""
        self._make, self._timeline = make, timeline
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="training-compile")
        self._steps: dict[Signature, Future[TrainingStep]] = {}
        self._lock, self._stopped = Lock(), False

    def prepare(self, batch: Batch) -> None:
        """Start compiling the step for such batches, unless it exists."""
        kind = signature(batch)
        with self._lock:
            if kind not in self._steps:
                number = len(self._steps)
                self._steps[kind] = self._pool.submit(self._compile, batch, number)

    def of(self, batch: Batch) -> TrainingStep:
        """Wait for the step for such batches and return it; raise the error of its compilation."""
        self.prepare(batch)
        return self._steps[signature(batch)].result()

    def close(self) -> None:
        """Stop compiling."""
        self._stopped = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _compile(self, batch: Batch, number: int) -> TrainingStep:
        with self._timeline.span("compiler", "compile", number):
            return self._make(batch, lambda: self._stopped)


def as_batch(item: Any) -> Batch:
    """Return a batch as a tuple of arrays, with its nesting."""
    arrays = each(np.asarray, item)
    return arrays if isinstance(arrays, tuple) else (arrays,)


class Validation:
    """Means over all batches of scalars of parameters and a batch, by one program."""

    def __init__(
        self, scalars: Mapping[str, Callable[..., Any]], data: Data, options: Options | None
    ) -> None:
        """Prepare the validation of these scalars."""
        self.scalars, self.data, self.options = scalars, data, options
        self._programs: dict[Signature, Compilation] = {}

    def means(self, params: Any, epoch: int) -> dict[str, float]:
        """Return the mean of each scalar; BadOption if there is no batch."""
        rows: list[list[float]] = []
        for item in self.data(epoch) if callable(self.data) else self.data:
            batch = as_batch(item)
            values = self._program(params, batch).run(*leaves(params), *leaves(batch)).values()
            rows.append([float(v) for v in values])
        if not rows:
            raise BadOption(f"there is no batch to validate with after epoch {epoch}")
        return dict(zip(self.scalars, np.mean(rows, axis=0).tolist(), strict=True))

    def _program(self, params: Any, batch: Batch) -> Compilation:
        kind = signature(batch)
        if kind not in self._programs:

            def every(params: Any, batch: Any) -> Any:
                return tuple(f(params, *batch) for f in self.scalars.values())

            model = trace(every)(declared(params), declared(batch))
            self._programs[kind] = compiled(model, options=self.options)
        return self._programs[kind]
