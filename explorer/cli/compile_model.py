"""A model from the flags of a command: options, sizes and inputs, reading and compiling it."""

from __future__ import annotations

import zipfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from explorer.cli import arguments
from explorer.cli.terminal import progress_line, step_progress
from explorer.devices.catalogue import HERE
from explorer.devices.cpus import CPUS
from explorer.errors import BadOption, BoundError, UnknownInput
from explorer.process.budget import check_room
from explorer.tuning import settings

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation
    from explorer.compiler.options import Options
    from explorer.frontends.model import Model


def options(flags: Namespace) -> Options:
    """Return the options of `--set` and `--threads`; check flags before a model is read."""
    from explorer import extend
    from explorer.compiler.options import Options

    arguments.bounds(flags.bounds)
    arguments.bind(flags.bind)
    if flags.target not in (*HERE, *CPUS):
        extend.device(flags.target)  # raises if the device is unknown
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
    return program_sizes(model.program, arguments.bind(flags.bind))


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
    from explorer.passes.random_inputs import random_inputs

    if flags.inputs is None:
        return random_inputs(source.program, bound)
    names = [p.name for p in source.program.main.params]
    values = read_inputs(flags.inputs, names)
    check_sizes(source.program, values, arguments.bind(flags.bind))
    return values


def _runs_here(target: str) -> bool:
    """Return True if code for a target runs on this machine."""
    from explorer.compiler.pipeline import device_of
    from explorer.devices.cpus import runs_on
    from explorer.measure.this_cpu import this_cpu

    return runs_on(device_of(target), this_cpu())


def read_inputs(path: str, input_names: Sequence[str]) -> dict[str, np.ndarray]:
    """Read the arrays of an .npz file by name; nothing is unpickled.

    Raises:
        BadOption: the file is missing, is no archive or holds something else than arrays.
        UnknownInput: an array is named like no input of the model.
    """
    file = Path(path)
    if not file.is_file():
        raise BadOption(f"there is no file of inputs at {path}", where=path)
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except zipfile.BadZipFile:
        raise BadOption(
            f"{path} is not an .npz file: it is no archive, or is damaged", where=path
        ) from None
    names = [entry.filename.removesuffix(".npy") for entry in entries]
    for name in names:
        if name not in input_names:
            raise UnknownInput(
                f"{path} holds {name!r}, which is no input of the model; "
                f"it has {', '.join(input_names)}",
                where=name,
                expected=", ".join(input_names),
                actual=name,
            )
    check_room(sum(entry.file_size for entry in entries), f"{path}, unpacked,", path)
    with np.load(file, allow_pickle=False) as arrays:
        return {name: _read_array(path, arrays, name) for name in names}


def _read_array(path: str, arrays: Mapping[str, Any], name: str) -> np.ndarray:
    try:
        array = arrays[name]
    except Exception as problem:  # a file from elsewhere may raise anything
        raise BadOption(
            f"{path}: the array {name!r} cannot be read: {problem}", where=name
        ) from None
    if not isinstance(array, np.ndarray):
        raise BadOption(f"{path}: {name!r} is no array", where=name)
    return array


def program_sizes(program: Any, bound: Mapping[str, int]) -> dict[str, int]:
    """Return a value for each symbol of a program: the bound one, else its hint.

    Raises:
        BadOption: a bound name is no symbol of the program.
        BoundError: a bound value is outside of the symbol's bounds.
    """
    hints = dict(program.env.hints)
    for name, value in bound.items():
        if name not in hints:
            symbols = ", ".join(hints) or "none: every dim is a number"
            raise BadOption(
                f"--bind names {name!r}, which is no symbolic dim of the model; it has {symbols}",
                where=name,
                expected=symbols,
                actual=name,
            )
        limits = program.env.of(name)
        if value < limits.low or (limits.high is not None and value > limits.high):
            low, high = limits.low, limits.high
            allowed = f"{low} or more" if high is None else f"{low} to {high}"
            raise BoundError(
                f"--bind sets {name} to {value}, outside its bounds, {allowed}",
                where=name,
                expected=allowed,
                actual=value,
            )
    return {**hints, **bound}


def check_sizes(program: Any, arrays: Mapping[str, np.ndarray], bound: Mapping[str, int]) -> None:
    """Raise a `BoundError` if the inputs' shapes and `--bind` give different sizes."""
    from explorer.ops.interpreter.frame import bind_sizes

    sizes_of_inputs = bind_sizes(program, arrays)
    for name, value in bound.items():
        if sizes_of_inputs.get(name, value) != value:
            raise BoundError(
                f"--bind sets {name} to {value}, and the inputs make it {sizes_of_inputs[name]}",
                where=name,
                expected=value,
                actual=sizes_of_inputs[name],
            )
