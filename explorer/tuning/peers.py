"""Other runtimes that can run a model here, each with the threads that it is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from explorer.errors import IronworksError
from explorer.frontends import zoo
from explorer.frontends.model import Model

Inputs = Mapping[str, np.ndarray]
Outputs = Mapping[str, np.ndarray]

SEED = re.compile(rb"seed (\d+)\Z")  # how the zoo ends the head of a model it salted


class Skipped(Exception):
    """A runtime cannot take part; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A runtime that holds the model: `run` gives the outputs by name, `close` undoes its
    settings.
    """

    name: str
    version: str
    run: Callable[[], Outputs]
    close: Callable[[], object] = lambda: None


Prepare = Callable[[Model, Inputs, int], Peer]


def prepare(name: str, model: Model, inputs: Inputs, threads: int) -> Peer:
    """The runtime of that name with the model loaded; Skipped where it is missing or refuses it."""
    package, ready = PEERS[name]
    if find_spec(package) is None:
        raise Skipped(f"{package} is not installed")
    try:
        return ready(model, inputs, threads)
    except (Skipped, IronworksError) as problem:
        raise Skipped(str(problem)) from problem
    except Exception as problem:  # whatever a foreign runtime says of a model is a reason
        first = next(iter(str(problem).splitlines()), "")
        raise Skipped(f"{name} cannot run it: {first or type(problem).__name__}") from problem


def onnx_source(model: Model) -> str | bytes:
    """What another runtime loads: the model's own file, or the bytes of one of the zoo's models.

    Raises Skipped where the model comes from Python.
    """
    if not model.path.startswith(zoo.PREFIX):
        if not Path(model.path).is_file():
            raise Skipped("the model was not read from an ONNX file")
        return model.path
    seed = SEED.search(model.head)
    found: bytes = zoo.proto(model.path, int(seed[1]) if seed else 0).SerializeToString()
    return found


def _onnxruntime(model: Model, inputs: Inputs, threads: int) -> Peer:
    """Its threads spin while a run lasts, as ours do, but not into another runtime's turn."""
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = ort.InferenceSession(onnx_source(model), options, ["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    feed = dict(inputs)

    def run() -> Outputs:
        return dict(zip(names, session.run(names, feed)))

    run()
    return Peer("onnxruntime", str(ort.__version__), run)


def _torch(model: Model, inputs: Inputs, threads: int) -> Peer:
    """Eager PyTorch: one call an operator, from Python."""
    from explorer.tuning.torch_peer import torch, torch_plan

    return _torch_peer("torch", torch, torch_plan(model.program), model, inputs, threads)


def _torch_compile(model: Model, inputs: Inputs, threads: int) -> Peer:
    """The same calls, given to PyTorch's compiler; it needs a C++ compiler here."""
    from explorer.tuning.torch_peer import torch, torch_plan

    plan = torch.compile(torch_plan(model.program).__call__, dynamic=False)
    return _torch_peer("torch.compile", torch, plan, model, inputs, threads)


def _torch_peer(
    name: str,
    torch: Any,
    plan: Callable[..., tuple[Any, ...]],
    model: Model,
    inputs: Inputs,
    threads: int,
) -> Peer:
    before = torch.get_num_threads()

    def run() -> Outputs:
        with torch.inference_mode():
            found = plan(*(torch.from_numpy(inputs[n]) for n in model.inputs))
            return {n: t.numpy() for n, t in zip(model.outputs, found)}

    def close() -> None:
        torch.set_num_threads(before)

    torch.set_num_threads(threads)
    try:
        run()
    except Exception:
        close()
        raise
    return Peer(name, str(torch.__version__), run, close)


def _jax(model: Model, inputs: Inputs, threads: int) -> Peer:
    raise Skipped("Ironworks has no JAX form of a model yet")


PEERS: Mapping[str, tuple[str, Prepare]] = {  # name -> the package it needs, and how it is loaded
    "onnxruntime": ("onnxruntime", _onnxruntime),
    "torch": ("torch", _torch),
    "torch.compile": ("torch", _torch_compile),
    "jax": ("jax", _jax),
}


def own_version() -> str:
    """The version of this distribution, empty where it is not installed."""
    try:
        return version("ironworks")
    except PackageNotFoundError:
        return ""
