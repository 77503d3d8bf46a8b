"""The training loop: threads prefetch batches and compile steps, and no step waits for the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from explorer.errors import BadOption
from explorer.options import Options
from explorer.training.optimizers.adam import Adam
from explorer.training.optimizers.checks import counts
from explorer.training.optimizers.loss_scale import LossScale
from explorer.training.optimizers.schedules import Schedule
from explorer.training.runs.fitted import Fitted
from explorer.training.runs.programs import Setting
from explorer.training.runs.replicas.ranks import Ranks
from explorer.training.runs.run import RunPlan, TrainingRun
from explorer.training.runs.validation import Data, Validation
from explorer.training.step import Optimizer, Recipe


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
