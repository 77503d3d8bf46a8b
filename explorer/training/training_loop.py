"""The training loop: threads prefetch batches and compile steps, and no step waits for the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from explorer.compiler.options import Options
from explorer.errors import BadCheckpoint, BadOption
from explorer.frontends.python.tracing.structure import flatten, rebuild
from explorer.training.checkpoint import load_arrays, nested_like, save_arrays
from explorer.training.fitted import Epoch, Fitted, Timeline
from explorer.training.optimizers import Adam, LossScale, Schedule, counts
from explorer.training.prefetcher import Prefetcher
from explorer.training.programs import (
    Batch,
    Data,
    Ordinary,
    Programs,
    Setting,
    StepInputs,
    SyncFree,
    TrainingStep,
    Validation,
    as_batch,
)
from explorer.training.ranks import AllReduce, Ranks
from explorer.training.replicated import Replicated
from explorer.training.step import Optimizer, Recipe, first_state
from explorer.training.tree import each, leaves, names_of


def fit(
    loss: Callable[..., Any],
    params: Any,
    data: Data,
    optimizer: Optimizer | None = None,
    *,
    epochs: int = 1,
    scale: LossScale | None = None,
    clip_norm: float | None = None,
    parts: int = 1,
    precision: str = "",
    schedule: Schedule | None = None,
    seed: int | None = None,
    validate: Data | None = None,
    metrics: Mapping[str, Callable[..., Any]] | None = None,
    patience: int = 0,
    checkpoint: str | Path | None = None,
    every: int = 100,
    resume: bool = True,
    ahead: int = 2,
    sync_free: bool = True,
    ranks: Ranks | None = None,
    options: Options | None = None,
    progress: Callable[[Fitted], object] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Fitted:
    """Train parameters for several passes over the data and return them with the run's history.

    `loss(params, *batch)` is a scalar; parameters are nested arrays, which are not modified. `data`
    are the batches of a pass, or a function of the number of the pass that returns them; a batch is
    an array or a tuple of arrays. `optimizer` defaults to Adam(); `schedule` returns the factor of
    its learning rate at a step; with a `seed` the loss gets a `key` for `dropout`. `scale`,
    `clip_norm`, `parts` and `precision` are those of `explorer.training.step.Recipe`: a batch in
    `parts` takes the memory of one of them.

    After each pass `loss` and `metrics` are averaged over `validate`; if the loss has not decreased
    for `patience` passes (0: no limit), the run ends. A `checkpoint` is a file that is written
    every `every` steps and at the end; if it exists, and `resume`, the run continues from it with
    bit-identical losses. At most `ahead` batches are prefetched. With `sync_free` off, the host
    reads in each step whether gradients are finite, as ordinary optimizers do.

    With `ranks` this is one of several replicas (`explorer.training.Mpi()`, or one of
    `on_threads(n)` in each of n threads), all with the same arguments: each takes its rows of every
    batch, and the loss is a mean over them; the first one writes the checkpoint. Gradients of late
    layers are summed while those of early ones are computed; with `sync_free` off, all of them
    after that.

    `progress(fitted)` is called after every step. If `cancelled()` returns True after a step, the
    run ends and returns its results so far.

    Raises:
        BadOption: an argument is invalid.
        BadCheckpoint: the checkpoint does not belong to such a run.
        Exception: whatever making a batch, `trace` or `compile` raise.
    """
    counts(1, epochs=epochs, ahead=ahead, every=every)
    counts(0, patience=patience)
    chosen = Adam() if optimizer is None else optimizer
    recipe = Recipe(loss, scale, clip_norm, parts, precision)
    if validate is None and (patience or metrics):
        raise BadOption("`patience` and `metrics` need batches to `validate` with")
    scalars = {} if validate is None else {"loss": loss, **(metrics or {})}
    validation = None if validate is None else Validation(scalars, validate, options)
    path = None if checkpoint is None else Path(checkpoint)
    plan = RunPlan(
        epochs, ahead, patience, path, every, progress or _ignore_progress, cancelled or _never
    )
    run = TrainingRun(Setting(recipe, chosen, options), params, seed, schedule, sync_free, ranks)
    try:
        if path is not None and resume and path.exists():
            run.restore(path, tuple(scalars))
        run.passes(data, plan, validation)
    except BaseException:
        if ranks is not None:
            ranks.leave()
        raise
    finally:
        run.close()
    return run.fitted


def _ignore_progress(fitted: Fitted) -> None:
    """Ignore progress."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The limits, outputs and callbacks of a run."""

    epochs: int
    ahead: int
    patience: int
    path: Path | None
    every: int
    progress: Callable[[Fitted], object]
    cancelled: Callable[[], bool]


class TrainingRun:
    """The arrays of a run and the programs that update them."""

    def __init__(
        self,
        setting: Setting,
        params: Any,
        seed: int | None,
        schedule: Schedule | None,
        sync_free: bool,
        ranks: Ranks | None = None,
    ) -> None:
        """Copy the parameters and create the first state."""
        if not leaves(params):
            raise BadOption("there is no parameter to train", expected="nested arrays")
        own = each(lambda a: np.array(a), params)
        state = each(
            lambda a: np.array(a), first_state(setting.optimizer, own, setting.recipe.scale)
        )
        self.setting, self.seed, self.schedule = setting, seed, schedule
        self.fitted = Fitted(own, state)
        self.timeline: Timeline = self.fitted.timeline
        self.arrays, self.nesting = flatten((own, state))
        self.sync_free = sync_free
        self.sums = None if ranks is None else AllReduce(ranks, self.timeline)
        self.programs = Programs(self._make, self.timeline)

    def close(self) -> None:
        """Stop the compiler and the all-reduce."""
        self.programs.close()
        if self.sums is not None:
            self.sums.close()

    def _make(self, batch: Batch, cancelled: Callable[[], bool]) -> TrainingStep:
        at = self.fitted
        begin = StepInputs(self.setting, at.params, at.state, self.numbers(), batch, cancelled)
        if self.sums is not None:
            return Replicated(begin, self.sums, self.timeline, self.sync_free)
        return SyncFree(begin) if self.sync_free else Ordinary(begin, self.timeline)

    def numbers(self) -> dict[str, np.ndarray]:
        """Return the hyperparameters of the next step."""
        values = dict(self.setting.optimizer.numbers)
        if self.schedule is not None:
            factor = np.float64(self.schedule(self.fitted.step))
            values["learning_rate"] = np.asarray(values["learning_rate"] * factor)
        if self.seed is not None:
            values["key"] = np.array([self.seed, self.fitted.step], np.int64)
        return values

    def passes(self, data: Data, plan: RunPlan, validation: Validation | None) -> None:
        """Run the remaining passes over the data."""
        at, first = self.fitted, len(self.fitted.losses) - self.fitted.batch
        while at.epoch < plan.epochs and not at.stopped:
            self._pass(data, plan)
            if at.stopped:
                break
            if at.batch == 0:
                raise BadOption(
                    f"there is no batch in epoch {at.epoch}",
                    expected="what can be iterated over again, or a function of the epoch",
                )
            validated = {} if validation is None else self._validated(validation)
            at.epochs.append(Epoch(at.epoch, float(np.mean(at.losses[first:])), validated))
            at.epoch, at.batch, first = at.epoch + 1, 0, len(at.losses)
            if plan.patience and _has_stalled(at.epochs, plan.patience):
                at.stopped = "no better"
        at.stopped = at.stopped or "done"
        if plan.path is not None:
            self.save(plan.path)

    def _pass(self, data: Data, plan: RunPlan) -> None:
        at = self.fitted

        def remaining_batches() -> Iterable[Batch]:
            batches = data(at.epoch) if callable(data) else data
            return map(as_batch, islice(iter(batches), at.batch, None))

        with Prefetcher(
            remaining_batches, plan.ahead, self.timeline, self.programs.prepare
        ) as source:
            for batch in source:
                self._step(batch)
                plan.progress(at)
                if plan.path is not None and at.step % plan.every == 0:
                    self.save(plan.path)
                if plan.cancelled():
                    at.stopped = "cancelled"
                    return

    def _step(self, batch: Batch) -> None:
        at = self.fitted
        step = self.programs.of(batch)
        with self.timeline.span("main", "run", at.step):
            value = step(self.arrays, self.numbers(), batch, at.step)
        at.params, at.state = rebuild(self.nesting, self.arrays)
        at.losses.append(float(value))
        at.step, at.batch = at.step + 1, at.batch + 1
        at.program = step.program

    def _validated(self, validation: Validation) -> dict[str, float]:
        with self.timeline.span("main", "validate", self.fitted.step):
            return validation.means(self.fitted.params, self.fitted.epoch)

    def save(self, path: Path) -> None:
        """Write a checkpoint; of several replicas only the first does."""
        at = self.fitted
        if self.sums is not None and self.sums.ranks.rank:
            return
        names = names_of(at.params, "params") + names_of(at.state, "state")
        arrays = dict(zip(names, self.arrays, strict=True))
        arrays["losses"] = np.array(at.losses, np.float64)
        arrays["at"] = np.array([at.step, at.epoch, at.batch], np.int64)
        rows = [[e.loss, *e.validated.values()] for e in at.epochs]
        arrays["epochs"] = np.array(rows or np.zeros((0, 1)), np.float64)
        with self.timeline.span("main", "save", at.step):
            save_arrays(path, arrays, _name_of(self.setting.optimizer))

    def restore(self, path: Path, validated: Sequence[str]) -> None:
        """Resume from a checkpoint; `validated` names the further columns of the epochs' rows."""
        at = self.fitted
        arrays, optimizer = load_arrays(path)
        if optimizer not in ("", own := _name_of(self.setting.optimizer)):
            raise BadCheckpoint(
                f"{path} is the checkpoint of a run by {optimizer}, and this one is by {own}",
                where=str(path),
                expected=own,
                actual=optimizer,
                try_=f"{optimizer}, another path, or `resume=False`",
            )
        params = nested_like(at.params, arrays, "params", path)
        state = nested_like(at.state, arrays, "state", path)
        place, losses, rows = (arrays.get(n, np.zeros(())) for n in ("at", "losses", "epochs"))
        is_valid = place.shape == (3,) and place.dtype == np.int64 and losses.dtype == np.float64
        if not is_valid or rows.ndim != 2 or losses.shape != (place[0],) or len(rows) != place[1]:
            raise BadCheckpoint(f"{path} does not contain the position of the run", where=str(path))
        if len(rows) and rows.shape[1] != 1 + len(validated):
            raise BadCheckpoint(
                f"{path} holds {rows.shape[1]} numbers for each epoch",
                where=str(path),
                expected=", ".join(("the mean loss", *validated)),
                try_="the same `metrics`, or `resume=False`",
            )
        at.params, at.state = each(np.array, params), each(np.array, state)
        self.arrays = leaves((at.params, at.state))
        at.step, at.epoch, at.batch = (int(n) for n in place)
        at.losses = losses.tolist()
        at.epochs = [
            Epoch(n, mean, dict(zip(validated, more, strict=True)))
            for n, (mean, *more) in enumerate(rows.tolist())
        ]


def _name_of(optimizer: Optimizer) -> str:
    return type(optimizer).__name__


def _has_stalled(epochs: Sequence[Epoch], patience: int) -> bool:
    """Return True if the last `patience` epochs did not decrease the loss."""
    losses = [e.validated["loss"] for e in epochs]
    return len(losses) > patience and min(losses[-patience:]) >= min(losses[:-patience])
