"""One model in one runtime: made ready, then run as often as standard input says.

    python -m tests.benchmarks.control_flow_peers.server RUNTIME MODEL CASE.npz OUTPUTS.npz CLOCK

CLOCK is "wall" or "cpu", the seconds of all cores that this process had. Answers a JSON line when
it is ready, with what stands in the way if it is not, and to each number a line of so many runs'
seconds.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Run = Callable[[], Any]
CLOCKS = {"wall": perf_counter, "cpu": process_time}


def by_numpy(name: str, w: Arrays, x: Arrays) -> Run:
    """The zoo's own text."""
    from explorer.frontends import zoo

    source: Any = zoo.entry(name).source
    function = source.flow.function(w)
    return lambda: list(function(**x).values())


def torch_module(name: str, w: Arrays, layered: bool = False) -> tuple[Any, Any]:
    """PyTorch, and the model in it."""
    import torch

    from tests.benchmarks.control_flow_peers import torch_branches, torch_recurrent

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.set_grad_enabled(False)
    made = {
        "nasrnn": torch_recurrent.NasRnn,
        "looped_lstm": torch_recurrent.LayeredLstm if layered else torch_recurrent.LoopedLstm,
        "attention_decoding": torch_recurrent.Attention,
        "seq2seq_decoder": torch_recurrent.Decoder,
        "beam_search": torch_recurrent.BeamSearch,
        "blockdrop": torch_branches.BlockDrop,
        "skipnet": torch_branches.SkipNet,
        "moe": torch_branches.Experts,
        "recursive_autoencoder": torch_recurrent.RecursiveAutoencoder,
    }[name.removeprefix("small_")]
    return torch, made({n: torch.from_numpy(v) for n, v in w.items()}).eval()


def of_torch(kind: str, name: str, w: Arrays, x: Arrays) -> Run:
    """Eager; its own LSTM; scripted and frozen; or compiled: what a loop repeats, where there is
    one, as the compiler would unroll it.
    """
    if kind == "nn.LSTM" and not name.endswith("looped_lstm"):
        raise ValueError("there is no such operator")
    torch, module = torch_module(name, w, layered=kind == "nn.LSTM")
    args = [torch.from_numpy(v) for v in x.values()]
    if kind == "TorchScript":
        module = torch.jit.freeze(torch.jit.script(module))
    elif kind == "torch.compile" and hasattr(module, "step"):
        module.step = torch.compile(module.step, dynamic=False)
    elif kind == "torch.compile" and hasattr(module, "cells"):
        for n, cell in enumerate(module.cells):
            module.cells[n] = torch.compile(cell, dynamic=False)
    elif kind == "torch.compile":
        module = torch.compile(module, dynamic=name == "moe")
    return lambda: [v.numpy() for v in module(*args)]


def of_jax(name: str, w: Arrays, x: Arrays) -> Run:
    import jax

    from tests.benchmarks.control_flow_peers.jax_models import MODELS

    weights, args = jax.device_put(w), [jax.device_put(v) for v in x.values()]
    run = jax.jit(MODELS[name.removeprefix("small_")])
    return lambda: [np.asarray(v) for v in run(weights, *args)]


def of_onnxruntime(name: str, w: Arrays, x: Arrays) -> Run:
    """The scripted model, exported with its Loop and If; layers of LSTM as that operator."""
    import io
    import warnings

    import onnxruntime as ort

    torch, module = torch_module(name, w, layered=True)
    args = tuple(torch.from_numpy(v) for v in x.values())
    given = module if name.endswith("looped_lstm") else torch.jit.script(module)
    with io.BytesIO() as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(given, args, file, dynamo=False, input_names=list(x), opset_version=17)
        made = file.getvalue()
    options = ort.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(made, options, ["CPUExecutionProvider"])
    return lambda: session.run(None, x)


def ready(runtime: str, name: str, w: Arrays, x: Arrays) -> Run:
    if name == "llama":
        from tests.benchmarks.control_flow_peers import torch_llama

        return torch_llama.ready(runtime, w, x)
    match runtime:
        case "NumPy":
            return by_numpy(name, w, x)
        case "JAX":
            return of_jax(name, w, x)
        case "onnxruntime":
            return of_onnxruntime(name, w, x)
    return of_torch(runtime, name, w, x)


def main() -> None:
    runtime, name, case, outputs, clock = sys.argv[1:]
    now = CLOCKS[clock]
    with np.load(case) as stored:
        arrays = {n: stored[n] for n in stored.files}
    w = {n[2:]: v for n, v in arrays.items() if n.startswith("w:")}
    x = {n[2:]: v for n, v in arrays.items() if n.startswith("x:")}
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    try:
        run = ready(runtime, name, w, x)
        found = run()
        run()
        np.savez(Path(outputs), *found)
        said = {"ready": True}
    except Exception as problem:  # whatever a runtime says of a model is a reason
        first = next(iter(str(problem).strip().splitlines()), "")
        said = {"ready": False, "reason": f"{type(problem).__name__}: {first[:200]}"}
    print(json.dumps(said), file=answer, flush=True)
    for line in sys.stdin if said["ready"] else ():
        times = []
        for _ in range(int(line)):
            begin = now()
            run()
            times.append(now() - begin)
        print(json.dumps(times), file=answer, flush=True)


if __name__ == "__main__":
    main()
