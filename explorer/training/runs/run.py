"""One training run: its arrays and its position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from explorer.errors import BadCheckpoint, BadOption
from explorer.frontends.tracing.structure import flatten, rebuild
from explorer.training.optimizers.schedules import Schedule
from explorer.training.runs.checkpoint import load_arrays, nested_like, save_arrays
from explorer.training.runs.fitted import Epoch, Fitted
from explorer.training.runs.names import names_of
from explorer.training.runs.prefetcher import Prefetcher
from explorer.training.runs.programs import (
    Batch,
    Ordinary,
    Programs,
    Setting,
    StepInputs,
    SyncFree,
    TrainingStep,
)
from explorer.training.runs.replicas.all_reduce import AllReduce
from explorer.training.runs.replicas.ranks import Ranks
from explorer.training.runs.replicas.replicated import Replicated
from explorer.training.runs.timeline import Timeline
from explorer.training.runs.validation import Data, Validation, as_batch
from explorer.training.step import Optimizer, first_state
from explorer.training.tree import each, leaves


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
