"""A step compiled for the batches that come: as one program, or as the two between which an
ordinary optimizer reads a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

import numpy as np

from explorer.compilation import Compilation
from explorer.compiler import compile as compiled
from explorer.counters import counters
from explorer.errors import DtypeError
from explorer.frontends.trace import trace
from explorer.frontends.tracing.structure import flatten, holds_complex, rebuild
from explorer.ir.types import Tensor, dtype_of
from explorer.options import Options
from explorer.training.runs.timeline import Timeline
from explorer.training.step import Optimizer, Recipe, gradients_of, step_of
from explorer.training.tree import each, leaves

Batch = tuple[Any, ...]
Signature = tuple[tuple[tuple[int, ...], str], ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """What a step does, and how it is compiled."""

    recipe: Recipe
    optimizer: Optimizer
    options: Options | None


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a step is compiled from: a setting, the arrays as they are, and a batch of its kind."""

    setting: Setting
    params: Any
    state: Any
    numbers: Mapping[str, np.ndarray]
    batch: Batch
    cancelled: Callable[[], bool]


def signature(batch: Batch) -> Signature:
    """The shapes and dtypes of a batch."""
    return tuple((np.shape(a), str(np.asarray(a).dtype)) for a in leaves(batch))


def declared(tree: Any) -> Any:
    """The types of nested arrays; DtypeError for complex ones."""
    if holds_complex(flatten(tree)[1]):
        raise DtypeError(
            "a parameter or a batch is complex, and training takes real arrays",
            expected="real arrays",
            try_="real and imaginary parts, and real + 1j * imag in the loss",
        )
    return each(lambda a: Tensor(np.shape(a), dtype_of(np.asarray(a))), tree)


class Step(Protocol):
    """A step for one kind of batch: moves parameters and state on, in place, and gives the loss.

    `program` is the whole step, or that of the gradients where the update is another, the first of
    several.
    """

    program: Compilation

    def __call__(
        self, arrays: list[np.ndarray], numbers: Mapping[str, np.ndarray], batch: Batch, number: int
    ) -> np.ndarray: ...


class SyncFree:
    """One program, which nothing of the host decides. Parameters and state are donated: the arrays
    stay where they are.
    """

    def __init__(self, at: Beginning) -> None:
        step = step_of(at.setting.recipe, at.setting.optimizer)

        def train(params: Any, state: Any, numbers: Any, batch: Any) -> Any:
            return step(params, state, numbers, *batch)

        model = trace(train)(*map(declared, (at.params, at.state, at.numbers, at.batch)))
        names = [p.name for p in model.program.main.params]
        kept = names[: len(leaves((at.params, at.state)))]
        self.program: Compilation = compiled(
            model, options=at.setting.options, donate=kept, cancelled=at.cancelled
        )

    def __call__(
        self, arrays: list[np.ndarray], numbers: Mapping[str, np.ndarray], batch: Batch, number: int
    ) -> np.ndarray:
        """The loss; the arrays are written over."""
        *after, value = self.program.run(*arrays, *numbers.values(), *leaves(batch)).values()
        arrays[:] = after
        return value


class Ordinary:
    """The form without sync-free optimizers, to compare with: gradients are one program and the
    update another, and in between the host reads whether the gradients are finite.
    """

    def __init__(self, at: Beginning, timeline: Timeline) -> None:
        recipe, optimizer = at.setting.recipe, at.setting.optimizer
        self.scale, self.timeline = recipe.scale, timeline
        self.count, self.nesting = len(leaves(at.params)), flatten((at.params, at.state))[1]
        factor = np.ones((), np.float32)

        def gradients(params: Any, factor: Any, numbers: Any, batch: Any) -> Any:
            return gradients_of(recipe, params, factor, numbers, batch)

        def update(params: Any, made: Any, state: Any, numbers: Any) -> Any:
            return optimizer.update(params, made, state, numbers, np.bool_(False))

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
        """The loss; the arrays are written over, or left where a gradient is not finite."""
        _, state = rebuild(self.nesting, arrays)
        factor = state["scale"]["scale"] if self.scale else np.ones((), np.float32)
        given, data = arrays[: self.count], (*numbers.values(),)
        value, *made, found = self.program.run(*given, factor, *data, *leaves(batch)).values()
        with self.timeline.span("main", "read", number):
            counters.add("host_reads")
            skipped = bool(found)
        own = leaves(state["optimizer"])
        if not skipped:
            after = list(self.update.run(*given, *made, *own, *data).values())
            arrays[: self.count + len(own)] = after
        if self.scale:
            told = self.scale.update(state["scale"], np.bool_(skipped))
            arrays[self.count + len(own) :] = [np.asarray(a) for a in leaves(told)]
        return value


class Programs:
    """The step of each kind of batch, compiled by a thread of its own before it is needed."""

    def __init__(
        self, make: Callable[[Batch, Callable[[], bool]], Step], timeline: Timeline
    ) -> None:
        self._make, self._timeline = make, timeline
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="training-compile")
        self._known: dict[Signature, Future[Step]] = {}
        self._lock, self._stopped = Lock(), False

    def prepare(self, batch: Batch) -> None:
        """See to it that there will be a step for such batches."""
        kind = signature(batch)
        with self._lock:
            if kind not in self._known:
                number = len(self._known)
                self._known[kind] = self._pool.submit(self._compile, batch, number)

    def of(self, batch: Batch) -> Step:
        """The step for such batches; waits for it, and raises what went wrong with it."""
        self.prepare(batch)
        return self._known[signature(batch)].result()

    def close(self) -> None:
        """Stop compiling."""
        self._stopped = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _compile(self, batch: Batch, number: int) -> Step:
        with self._timeline.span("compiler", "compile", number):
            return self._make(batch, lambda: self._stopped)
