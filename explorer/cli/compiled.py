"""A model from the flags of a command: read it, compile it, and load its inputs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.cli import arguments, inputs
from explorer.cli.progress import progress_line, step_progress
from explorer.devices.catalogue import HERE
from explorer.devices.cpus import CPUS
from explorer.errors import BadOption
from explorer.tuning import settings

if TYPE_CHECKING:
    import numpy as np

    from explorer.compilation import Compilation
    from explorer.frontends.model import Model
    from explorer.options import Options

__all__ = [
    "HERE",
    "compile_model",
    "input_arrays",
    "load_model",
    "options",
    "require_this_machine",
    "sizes",
]


def options(flags: Namespace) -> Options:
    """Return the options of `--set` and `--threads`; check flags before a model is read."""
    from explorer import plugins
    from explorer.options import Options

    arguments.bounds(flags.bounds)
    arguments.bind(flags.bind)
    if flags.target not in (*HERE, *CPUS):
        plugins.device(flags.target)  # raises if the device is unknown
    chosen = settings.apply(Options().entered, flags.settings)
    workers = getattr(flags, "threads", None)
    if workers is None:
        return chosen
    return replace(chosen, rammer=replace(chosen.rammer, threads=workers))


def load_model(flags: Namespace) -> Model:
    """Read the model of the flags, within its bounds."""
    from explorer.frontends.load import load_file

    limits = arguments.bounds(flags.bounds)
    with progress_line(f"reading {flags.model}"):
        return load_file(flags.model, bounds=limits or None)


def sizes(model: Model, flags: Namespace) -> dict[str, int]:
    """Return a value for each symbolic dim: that of `--bind`, else its hint."""
    return inputs.sizes(model.program, arguments.bind(flags.bind))


def compile_model(
    model: Model, flags: Namespace, chosen: Options, until: str = "EMITTED", check: bool = False
) -> Compilation:
    """Compile a model up to a stage; a terminal shows each step."""
    import explorer

    with progress_line() as say:
        return explorer.compile(
            model,
            target=flags.target,
            options=chosen,
            until=explorer.Stage[until],
            check=check,
            progress=step_progress(say),
        )


def require_this_machine(flags: Namespace) -> None:
    """Refuse a target other than this machine: its wall can be planned, not measured."""
    if flags.target not in HERE and not _runs_here(flags.target):
        raise BadOption(
            f"{flags.target} is not this machine, so nothing can be measured on it",
            where="--target",
            actual=flags.target,
            try_=f"ironworks explain {flags.model} --target {flags.target} --stage rammer",
        )


def input_arrays(
    source: Model | Compilation, flags: Namespace, bound: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """Return the inputs of a run: those of `--inputs`, else random ones of the bound sizes.

    Given a model, this checks the inputs before anything is compiled.
    """
    from explorer.passes.pipeline.random_inputs import random_inputs

    if flags.inputs is None:
        return random_inputs(source.program, bound)
    names = [p.name for p in source.program.main.params]
    values = inputs.from_file(flags.inputs, names)
    inputs.check_sizes(source.program, values, arguments.bind(flags.bind))
    return values


def _runs_here(target: str) -> bool:
    """Return True if code for a target runs on this machine."""
    from explorer.compiler import device_of
    from explorer.devices.cpus import runs_on
    from explorer.measure.this_machine.this_cpu import this_cpu

    return runs_on(device_of(target), this_cpu())
