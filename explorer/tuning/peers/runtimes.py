"""Other runtimes that can run a model on this machine, with a given number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from explorer.errors import BadOption, InternalFault, IronworksError, did_you_mean
from explorer.frontends.model import Model
from explorer.tuning.peers.model_forms import fastest_first, forms
from explorer.tuning.peers.peer import Inputs, Outputs, Peer, Skipped, onnx_source, warm

SPIN_VARIABLE, LEAST_SPIN = "OPENBLAS_THREAD_TIMEOUT", "4"  # log2 of cycles

Prepare = Callable[[Model, Inputs, int], Peer]
Prepared = Callable[[str, Model, Inputs, int], Peer]


def check_peer_names(names: Iterable[str], where: str = "") -> None:
    """Raise BadOption for the first unknown runtime; `where` names the option."""
    for name in names:
        if name not in PEERS:
            names_text = ", ".join(PEERS)
            near = did_you_mean(name, PEERS) or f"; there are {names_text}"
            raise BadOption(
                f"no runtime is known as {name!r}{near}",
                where=where or name,
                expected=names_text,
                actual=name,
            )


def prepare(name: str, model: Model, inputs: Inputs, threads: int) -> Peer:
    """Load a model into a runtime; Skipped if the runtime is missing or refuses it."""
    ready = installed(name)
    try:
        return ready(model, inputs, threads)
    except InternalFault:
        raise
    except (Skipped, IronworksError) as problem:
        raise Skipped(str(problem)) from problem
    except Exception as problem:  # another runtime may raise anything: it is the reason
        first = next(iter(str(problem).splitlines()), "")
        raise Skipped(f"{name} cannot run it: {first or type(problem).__name__}") from problem


def installed(name: str) -> Prepare:
    """Return the function that loads a model into a runtime; Skipped if it is not installed."""
    package, ready = PEERS[name]
    if find_spec(package) is None:
        raise Skipped(f"{package} is not installed")
    return ready


def prepare_peers(
    names: Iterable[str],
    model: Model,
    inputs: Inputs,
    threads: int,
    stack: ExitStack,
    ready: Prepared = prepare,
) -> tuple[list[Peer], dict[str, str]]:
    """Load a model into the runtimes that can run it.

    Returns these runtimes and the reasons for the others. The stack closes them. `ready` loads one
    of them.
    """
    peers: list[Peer] = []
    skipped: dict[str, str] = {}
    for name in names:
        try:
            peer = ready(name, model, inputs, threads)
        except Skipped as reason:
            skipped[name] = str(reason)
            continue
        stack.callback(peer.close)
        peers.append(peer)
    return peers, skipped


def _onnxruntime(model: Model, inputs: Inputs, threads: int) -> Peer:
    """Load into ONNX Runtime; threads spin during a run, as ours do, but not in other turns."""
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

    return warm(fastest_first([ready(*form) for form in forms(model)])[0])


def _torch(model: Model, inputs: Inputs, threads: int) -> Peer:
    """Load into eager PyTorch, one call an operator, in its fastest form here."""
    from explorer.tuning.peers import torch_peer

    return _torch_peer("torch", torch_peer.eager, model, inputs, threads)


def _torch_compile(model: Model, inputs: Inputs, threads: int) -> Peer:
    """Compile the same calls by PyTorch's compiler, which needs a C++ compiler."""
    from explorer.tuning.peers import torch_peer

    return _torch_peer("torch.compile", torch_peer.compiled, model, inputs, threads)


def _torch_peer(
    name: str, form_of: Callable[..., Any], model: Model, inputs: Inputs, threads: int
) -> Peer:
    from explorer.tuning.peers.torch_peer import torch

    before = torch.get_num_threads()

    def close() -> None:
        torch.set_num_threads(before)

    torch.set_num_threads(threads)
    try:
        form = form_of(model, inputs)

        def run() -> Outputs:
            return {n: t.numpy() for n, t in zip(model.outputs, form.run())}

        return warm(Peer(name, f"{torch.__version__} ({form.name})", run, close))
    except BaseException:  # Ctrl-C included: restore the settings
        close()
        raise


def _jax(model: Model, inputs: Inputs, threads: int) -> Peer:
    """Load as one jitted JAX function, on as many threads as JAX was started with."""
    from explorer.tuning.peers import jax_peer

    if not jax_peer.is_started(threads):
        raise Skipped(f"JAX runs in this process with another number of threads than {threads}")
    form = jax_peer.fastest(model, inputs)

    def run() -> Outputs:
        return dict(zip(model.outputs, form.run()))

    return warm(Peer("jax", f"{jax_peer.jax.__version__} ({form.name})", run))


def _openvino(model: Model, inputs: Inputs, threads: int) -> Peer:
    """Load into OpenVINO with these input shapes, in float32, tuned for latency."""
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
            results = request.infer(feed, share_inputs=True, share_outputs=True)
            return {n: results[i] for i, n in enumerate(names)}

        how = str(ov.__version__).partition("-")[0]
        return Peer("openvino", f"{how} ({name})" if name else how, run)

    return warm(fastest_first([ready(*form) for form in forms(model)])[0])


def _iree(model: Model, inputs: Inputs, threads: int) -> Peer:
    """Compile by IREE for this CPU."""
    from explorer.tuning.peers import ahead_of_time

    return ahead_of_time.iree(model, inputs, threads)


def _ncnn(model: Model, inputs: Inputs, threads: int) -> Peer:
    """Translate to ncnn, which takes single images."""
    from explorer.tuning.peers import ahead_of_time

    return ahead_of_time.ncnn(model, inputs, threads)


PEERS: Mapping[str, tuple[str, Prepare]] = {  # name -> its package and its loader
    "onnxruntime": ("onnxruntime", _onnxruntime),
    "openvino": ("openvino", _openvino),
    "torch": ("torch", _torch),
    "torch.compile": ("torch", _torch_compile),
    "jax": ("jax", _jax),
    "iree": ("iree", _iree),
    "ncnn": ("ncnn", _ncnn),
}


def own_version() -> str:
    """Return the version of this distribution, "" if it is not installed."""
    try:
        return version("ironworks")
    except PackageNotFoundError:
        return ""
