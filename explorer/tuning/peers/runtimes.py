"""Other runtimes that can run a model here, each with the threads that it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from explorer.errors import BadOption, InternalFault, IronworksError, did_you_mean
from explorer.frontends import zoo
from explorer.frontends.model import Model
from explorer.tuning.peers.model_forms import forms, in_order, seed_of

SPIN_VARIABLE, LEAST_SPIN = "OPENBLAS_THREAD_TIMEOUT", "4"  # two to this power, in cycles

Inputs = Mapping[str, np.ndarray]
Outputs = Mapping[str, np.ndarray]


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
Prepared = Callable[[str, Model, Inputs, int], Peer]


def known_peers(names: Iterable[str], where: str = "") -> None:
    """Raises BadOption for the first name that no runtime has; `where` it was given."""
    for name in names:
        if name not in PEERS:
            known = ", ".join(PEERS)
            near = did_you_mean(name, PEERS) or f"; there are {known}"
            raise BadOption(
                f"no runtime is known as {name!r}{near}",
                where=where or name,
                expected=known,
                found=name,
            )


def prepare(name: str, model: Model, inputs: Inputs, threads: int) -> Peer:
    """The runtime of that name with the model loaded; Skipped where it is missing or refuses it."""
    ready = installed(name)
    try:
        return ready(model, inputs, threads)
    except InternalFault:
        raise
    except (Skipped, IronworksError) as problem:
        raise Skipped(str(problem)) from problem
    except Exception as problem:  # whatever a foreign runtime says of a model is a reason
        first = next(iter(str(problem).splitlines()), "")
        raise Skipped(f"{name} cannot run it: {first or type(problem).__name__}") from problem


def installed(name: str) -> Prepare:
    """Return the function that loads a model into a runtime; Skipped where it is not installed."""
    package, ready = PEERS[name]
    if find_spec(package) is None:
        raise Skipped(f"{package} is not installed")
    return ready


def entered(
    names: Iterable[str],
    model: Model,
    inputs: Inputs,
    threads: int,
    stack: ExitStack,
    ready: Prepared = prepare,
) -> tuple[list[Peer], dict[str, str]]:
    """The runtimes of these names that can run the model, and of the others the reason; the stack
    closes them. `ready` loads one of them.
    """
    found: list[Peer] = []
    skipped: dict[str, str] = {}
    for name in names:
        try:
            peer = ready(name, model, inputs, threads)
        except Skipped as reason:
            skipped[name] = str(reason)
            continue
        stack.callback(peer.close)
        found.append(peer)
    return found, skipped


def onnx_source(model: Model) -> str | bytes:
    """What another runtime loads: the model's own file, or the bytes of one of the zoo's models.

    Raises Skipped where the model comes from Python.
    """
    if not model.path.startswith(zoo.PREFIX):
        if not Path(model.path).is_file():
            raise Skipped("the model was not read from an ONNX file")
        return model.path
    found: bytes = zoo.proto(model.path, seed_of(model)).SerializeToString()
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

    def ready(name: str, form: Model) -> Peer:
        session = ort.InferenceSession(onnx_source(form), options, ["CPUExecutionProvider"])
        names, feed = [o.name for o in session.get_outputs()], dict(inputs)
        how = f"{ort.__version__} ({name})" if name else str(ort.__version__)
        return Peer("onnxruntime", how, lambda: dict(zip(names, session.run(names, feed))))

    return _warm(in_order([ready(*form) for form in forms(model)])[0])


def _warm(peer: Peer) -> Peer:
    peer.run()
    return peer


def _torch(model: Model, inputs: Inputs, threads: int) -> Peer:
    """Eager PyTorch, one call an operator, in the form that is fastest here."""
    from explorer.tuning.peers.torch import forms as torch_forms

    return _torch_peer("torch", torch_forms.eager, model, inputs, threads)


def _torch_compile(model: Model, inputs: Inputs, threads: int) -> Peer:
    """The same calls, given to PyTorch's compiler; it needs a C++ compiler here."""
    from explorer.tuning.peers.torch import forms as torch_forms

    return _torch_peer("torch.compile", torch_forms.compiled, model, inputs, threads)


def _torch_peer(
    name: str, form_of: Callable[..., Any], model: Model, inputs: Inputs, threads: int
) -> Peer:
    from explorer.tuning.peers.torch.peer import torch

    before = torch.get_num_threads()

    def close() -> None:
        torch.set_num_threads(before)

    torch.set_num_threads(threads)
    try:
        form = form_of(model, inputs)

        def run() -> Outputs:
            return {n: t.numpy() for n, t in zip(model.outputs, form.run())}

        return _warm(Peer(name, f"{torch.__version__} ({form.name})", run, close))
    except BaseException:  # a Ctrl-C too: what was set is set back
        close()
        raise


def _jax(model: Model, inputs: Inputs, threads: int) -> Peer:
    """The model as one jitted function, on as many threads as JAX was started with here."""
    from explorer.tuning.peers.jax import peer as jax_peer

    if not jax_peer.started(threads):
        raise Skipped(f"JAX runs in this process with another number of threads than {threads}")
    form = jax_peer.fastest(model, inputs)

    def run() -> Outputs:
        return dict(zip(model.outputs, form.run()))

    return _warm(Peer("jax", f"{jax_peer.jax.__version__} ({form.name})", run))


def _openvino(model: Model, inputs: Inputs, threads: int) -> Peer:
    """The model with the shapes of these inputs, in float32, tuned for the latency of one run."""
    ov: Any = import_module("openvino")
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": str(threads),
        "INFERENCE_PRECISION_HINT": "f32",
    }

    def ready(name: str, form: Model) -> Peer:
        read = ov.Core().read_model(onnx_source(form))
        read.reshape({n: list(a.shape) for n, a in inputs.items()})
        request = ov.Core().compile_model(read, "CPU", settings).create_infer_request()
        feed, names = dict(inputs), list(model.outputs)

        def run() -> Outputs:
            found = request.infer(feed, share_inputs=True, share_outputs=True)
            return {n: found[i] for i, n in enumerate(names)}

        how = str(ov.__version__).partition("-")[0]
        return Peer("openvino", f"{how} ({name})" if name else how, run)

    return _warm(in_order([ready(*form) for form in forms(model)])[0])


PEERS: Mapping[str, tuple[str, Prepare]] = {  # name -> the package it needs, and how it is loaded
    "onnxruntime": ("onnxruntime", _onnxruntime),
    "openvino": ("openvino", _openvino),
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
