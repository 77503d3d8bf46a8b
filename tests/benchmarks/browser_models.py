"""Models for the runtimes of a page: their files in a folder, and what the page loads of them."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import explorer
from explorer.compiler.compilation import Compilation
from explorer.frontends import zoo
from explorer.tuning.peers.runtimes import own_version
from tests.benchmarks.browser_page import PACKAGES, MissingRuntime
from tests.benchmarks.decode import PROMPT, feeds

Arrays = Mapping[str, np.ndarray]
STEPS = 16  # words that a language model decodes
SIZES = {"batch": 1, "seq": 128, "n": PROMPT}  # of symbolic dims, by name


@dataclass(frozen=True, slots=True)
class Case:
    """A model with inputs, whose files lie in `folder`; `flow`: a language model that decodes."""

    name: str
    folder: Path
    inputs: Arrays
    flow: Any | None = None

    def expected(self, answer: Arrays) -> dict[str, np.ndarray]:
        """Return the outputs that every runtime has: of a language model, the decoded words."""
        if self.flow is None:
            return {n: a.copy() for n, a in answer.items()}
        return {"words": answer["words"][:, :STEPS].copy()}

    def outputs(self, data: Mapping[str, bytes], wanted: Arrays) -> dict[str, np.ndarray]:
        """Return the outputs of a runtime, of the shapes and types of others."""
        arrays = {}
        for name, array in wanted.items():
            dtype = array.dtype
            if dtype == np.int64 and len(data[name]) == 4 * array.size:
                dtype = np.dtype(np.int32)  # a runtime without int64
            values = np.frombuffer(data[name], dtype)
            if self.flow is not None:
                values = values.reshape(len(array), -1)[:, :STEPS]
            arrays[name] = values.reshape(array.shape).astype(array.dtype)
        return arrays

    def described(self, inputs: Arrays) -> dict[str, Any]:
        """Write the bytes of inputs; return how the page reads them."""
        described = {}
        for n, (name, array) in enumerate(inputs.items()):
            file = f"input_{n}.bin"
            (self.folder / file).write_bytes(np.ascontiguousarray(array).tobytes())
            shape, dtype = list(array.shape), str(array.dtype)
            described[name] = {"dtype": dtype, "shape": shape, "url": f"/case/{file}"}
        return described


def compilation(name: str, target: str) -> Compilation:
    """Compile a model of the zoo for one thread, with its sizes in place of its symbols."""
    model = zoo.load(name)
    sizes = {s.name: SIZES[s.name] for s in model.program.env.symbols if s.name in SIZES}
    if sizes:
        model = replace(model, program=explorer.bind_symbols(model.program, sizes), head=b"")
    c = explorer.compile(model, target)
    return c.with_options(rammer=replace(c.options.rammer, threads=1))


def case_of(name: str, folder: Path, c: Compilation) -> Case:
    """Return a model of the zoo with inputs: drawn, or a prompt."""
    flow = getattr(zoo.entry(name).source, "flow", None)
    if hasattr(flow, "most"):
        return Case(name, folder, feeds(flow, 1, PROMPT, STEPS), flow)
    inputs = {n: np.asarray(a, order="C") for n, a in c.random_inputs().items()}
    return Case(name, folder, inputs)


def own_program(case: Case, target: str) -> tuple[str, dict[str, Any]]:
    """Export a model for a target of WebAssembly; return the page's loader and its settings."""
    from explorer.codegen.cpu.cross import cross_compile
    from explorer.codegen.wasm import link_wasm
    from explorer.portable.program import portable

    program = portable(compilation(case.name, target))
    module = link_wasm([cross_compile(k.source, program.isa).code for k in program.kernels])
    paths = {n: case.folder / f"{target}.{n}" for n in ("json", "wasm", "bin")}
    paths["json"].write_text(json.dumps(program.to_dict()), encoding="utf-8")
    paths["wasm"].write_bytes(module.code)
    paths["bin"].write_bytes(program.weights)
    urls = dict(zip(("program_url", "module_url", "weights_url"), _urls(*paths.values())))
    return "ownProgram", {
        **urls,
        "version": own_version(),
        "inputs": case.described(case.inputs),
    }


def onnx_model(case: Case, backend: str) -> tuple[str, dict[str, Any]]:
    """Write a model as ONNX; return onnxruntime-web's loader and its settings."""
    if case.flow is not None:
        return _decoding(case, backend)
    settings = {"url": _onnx_url(case), "backend": backend, "inputs": case.described(case.inputs)}
    return "onnxModel", settings


def jax_model(case: Case, backend: str) -> tuple[str, dict[str, Any]]:
    """Write a model as ONNX; return jax-js's loader and its settings."""
    if case.flow is not None:
        raise MissingRuntime("jax-js has no control flow of ONNX")
    return "jaxModel", {
        "url": _onnx_url(case),
        "backend": backend,
        "version": PACKAGES["@jax-js/jax"],
        "inputs": case.described(case.inputs),
        "outputs": [o.name for o in zoo.proto(case.name).graph.output],
    }


PEERS = {  # name -> its settings for a case
    "onnxruntime-web": lambda case: onnx_model(case, "wasm"),
    "jax-js": lambda case: jax_model(case, "wasm"),
    "onnxruntime-web WebGPU": lambda case: onnx_model(case, "webgpu"),
    "jax-js WebGPU": lambda case: jax_model(case, "webgpu"),
}


def _urls(*paths: Path) -> tuple[str, ...]:
    return tuple(f"/case/{path.name}" for path in paths)


def _onnx_url(case: Case) -> str:
    path = case.folder / "model.onnx"
    if not path.exists():
        path.write_bytes(zoo.proto(case.name).SerializeToString())
    return _urls(path)[0]


def _decoding(case: Case, backend: str) -> tuple[str, dict[str, Any]]:
    """Export a language model as a graph for the prompt and one for a step, as `decode` has them.

    Raises MissingRuntime without PyTorch, which writes the graphs.
    """
    try:
        import torch

        from tests.benchmarks.control_flow_peers.torch_llama import Growing
    except ImportError as problem:
        raise MissingRuntime("PyTorch is not installed, which writes its graphs") from problem
    flow: Any = case.flow
    weights = {w.name: w.drawn(0) for w in flow.weights}
    model = Growing(weights, flow.heads, flow.most).eval()
    prompt = torch.from_numpy(case.inputs["prompt"])
    caches = range(2 * model.layers)
    old, new = ([f"{age}.{n}" for n in caches] for age in ("old", "new"))
    past = torch.zeros(len(prompt), model.groups, 5, model.each)

    def write(file: str, arguments: tuple[Any, ...], names: list[str]) -> str:
        grows = {n: {2: "past"} for n in names} | {n: {2: "now"} for n in new if names}
        stream = io.BytesIO()
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                model,
                arguments,
                stream,
                dynamo=False,
                input_names=["words", *names],
                output_names=["word", *new],
                dynamic_axes=grows,
                opset_version=17,
            )
        (case.folder / file).write_bytes(stream.getvalue())
        return _urls(case.folder / file)[0]

    return "decode", {
        "prompt_url": write("prompt.onnx", (prompt,), []),
        "step_url": write("step.onnx", (prompt[:, :1], *[past] * len(old)), old),
        "backend": backend,
        "inputs": case.described({"words": case.inputs["prompt"]}),
        "steps": STEPS,
        "output": "words",
    }
