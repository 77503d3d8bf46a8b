"""A training run: batches are made ahead by a thread, steps compiled by another, and none of them
waits for a value that the host reads.
"""

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
from explorer.training.runs.run import Plan, Run
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
    """Parameters after so many passes over the data, and all that was seen on the way.

    `loss(params, *batch)` is a scalar; parameters are nested arrays, which stay as they are. `data`
    are the batches of a pass, or a function of the number of the pass that gives them; a batch is
    an array or a tuple of them. `optimizer` is Adam() where none is given; `schedule` gives the
    factor of its learning rate at a step; with a `seed` the loss is given a `key` for `dropout`.
    `scale`, `clip_norm`, `parts` and `precision` are those of `explorer.training.step.Recipe`: a
    batch in `parts` takes the memory of one of them.

    After each pass `loss` and `metrics` are taken as means over `validate`; where the loss has not
    become less for `patience` passes (0: never), the run ends. A `checkpoint` is a file that is
    written every so many steps and at the end; where it exists, and `resume`, the run goes on from
    there, with the same losses to the bit. `ahead` batches at most are made ahead. With `sync_free`
    off, the host reads in each step whether gradients are finite, as ordinary optimizers do. With
    `ranks` this is one of several replicas (`explorer.training.Mpi()`, or one of `on_threads(n)`
    in each of n threads), all with the same arguments: each takes its rows of every batch, and the
    loss is a mean over them; the first one writes the checkpoint. Gradients of late layers are
    summed while those of early ones are computed; with `sync_free` off, all of them after that.

    `progress(fitted)` is called after every step. `cancelled()` ends the run after a step; what it
    came to is kept. Raises what making a batch raised, BadOption, BadCheckpoint, and what `trace`
    and `compile` raise.
    """
    counts(1, epochs=epochs, ahead=ahead, every=every)
    counts(0, patience=patience)
    chosen = Adam() if optimizer is None else optimizer
    recipe = Recipe(loss, scale, clip_norm, parts, precision)
    if validate is None and (patience or metrics):
        raise BadOption("`patience` and `metrics` need batches to `validate` with")
    asked = {} if validate is None else {"loss": loss, **(metrics or {})}
    validation = None if validate is None else Validation(asked, validate, options)
    path = None if checkpoint is None else Path(checkpoint)
    plan = Plan(epochs, ahead, patience, path, every, progress or _nobody, cancelled or _never)
    run = Run(Setting(recipe, chosen, options), params, seed, schedule, sync_free, ranks)
    try:
        if path is not None and resume and path.exists():
            run.restore(path, tuple(asked))
        run.passes(data, plan, validation)
    except BaseException:
        if ranks is not None:
            ranks.leave()
        raise
    finally:
        run.close()
    return run.fitted


def _nobody(fitted: Fitted) -> None:
    """Nobody is told."""


def _never() -> bool:
    return False
