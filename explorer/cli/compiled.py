"""A model from the flags of a command: read, compiled with progress, and given its inputs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.cli import arguments, inputs
from explorer.cli.progress import doing, steps
from explorer.devices.catalogue import HERE
from explorer.devices.cpus import CPUS
from explorer.errors import BadOption
from explorer.tuning import settings

if TYPE_CHECKING:
    import numpy as np

    from explorer.compilation import Compilation
    from explorer.frontends.model import Model
    from explorer.options import Options

__all__ = ["HERE", "arrays", "compiled", "loaded", "options", "run_here", "sizes"]


def options(flags: Namespace) -> Options:
    """The options that `--set` and `--threads` make; flags are checked before a model is read."""
    from explorer import plugins
    from explorer.options import Options

    arguments.bounds(flags.bounds)
    arguments.bind(flags.bind)
    if flags.target not in (*HERE, *CPUS):
        plugins.device(flags.target)  # says so where nobody knows it
    chosen = settings.apply(Options().entered, flags.settings)
    workers = getattr(flags, "threads", None)
    if workers is None:
        return chosen
    return replace(chosen, rammer=replace(chosen.rammer, threads=workers))


def loaded(flags: Namespace) -> Model:
    """The model, within its bounds."""
    from explorer.frontends.load import load_file

    limits = arguments.bounds(flags.bounds)
    with doing(f"reading {flags.model}"):
        return load_file(flags.model, bounds=limits or None)


def sizes(model: Model, flags: Namespace) -> dict[str, int]:
    """A value for each symbolic dim: what `--bind` says, else its hint."""
    return inputs.sizes(model.program, arguments.bind(flags.bind))


def compiled(
    model: Model, flags: Namespace, chosen: Options, until: str = "EMITTED", check: bool = False
) -> Compilation:
    """The model compiled up to a stage, each step shown on a terminal."""
    import explorer

    with doing() as say:
        return explorer.compile(
            model,
            target=flags.target,
            options=chosen,
            until=explorer.Stage[until],
            check=check,
            progress=steps(say),
        )


def run_here(flags: Namespace) -> None:
    """Refuse a target that is not this machine: its wall can be planned, not measured."""
    if flags.target not in HERE and not _runs(flags.target):
        raise BadOption(
            f"{flags.target} is not this machine, so nothing can be measured on it",
            where="--target",
            actual=flags.target,
            try_=f"ironworks explain {flags.model} --target {flags.target} --stage rammer",
        )


def arrays(
    source: Model | Compilation, flags: Namespace, bound: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """The inputs of a run: those of `--inputs`, else random ones of the bound sizes.

    What is wrong with them is found here, so before anything is compiled where the model is given.
    """
    from explorer.passes.pipeline.random_inputs import random_inputs

    if flags.inputs is None:
        return random_inputs(source.program, bound)
    known = [p.name for p in source.program.main.params]
    found = inputs.from_file(flags.inputs, known)
    inputs.agree(source.program, found, arguments.bind(flags.bind))
    return found


def _runs(target: str) -> bool:
    """Whether code for a target runs on this machine."""
    from explorer.compiler import device_of
    from explorer.devices.cpus import runs_on
    from explorer.measure.this_machine.this_cpu import this_cpu

    return runs_on(device_of(target), this_cpu())
