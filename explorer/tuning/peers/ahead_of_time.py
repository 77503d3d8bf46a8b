"""Runtimes that translate an ONNX file before they run it: IREE and ncnn.

Both get the shapes of the inputs and compute in float32.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from explorer.frontends.model import Model
from explorer.tuning.peers.peer import Inputs, Outputs, Peer, Skipped, onnx_source, warm

LEAST_OPSET = 17  # that IREE's ONNX importer reads, iree.dev/guides/ml-frameworks/onnx, 2026-11
MOST_SECONDS = 300  # for pnnx to translate a model; chosen
ONE_IMAGE = "ncnn takes float32 inputs of one image: rank 2 to 4, and a first dim of 1"


def iree(model: Model, inputs: Inputs, threads: int) -> Peer:
    """Compile for the vectors of this CPU by IREE, and run on its task system.

    Raises:
        Skipped: the compiler or the runtime of IREE is not installed.
    """
    compiler, runtime, importer, mlir = _modules(
        "iree.compiler", "iree.runtime", "iree.compiler.extras.onnx_importer", "iree.compiler.ir"
    )
    imported = importer.ModelInfo(_with_shapes(model, inputs))
    operation = imported.create_module(context=mlir.Context()).operation
    importer.NodeImporter.define_function(imported.main_graph, operation).import_all()
    code = compiler.compile_str(
        operation.get_asm(binary=True),
        target_backends=["llvm-cpu"],
        input_type="onnx",
        extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"],
    )
    runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
    config = runtime.Config("local-task")
    module = runtime.VmModule.copy_buffer(config.vm_instance, code)
    call = runtime.load_vm_module(module, config)[str(imported.main_graph.graph_proto.name)]
    arrays, names = [inputs[n] for n in model.inputs], model.outputs

    def run() -> Outputs:
        results = call(*arrays)
        several = results if isinstance(results, Sequence) else (results,)
        return {n: np.asarray(r.to_host()) for n, r in zip(names, several, strict=True)}

    return warm(Peer("iree", version("iree-base-runtime"), run))


def ncnn(model: Model, inputs: Inputs, threads: int) -> Peer:
    """Translate to ncnn's format by pnnx, and run without 16-bit arithmetic.

    ncnn has no batch: the dim of 1 in front of inputs and outputs is dropped and put back.

    Raises:
        Skipped: ncnn or pnnx is not installed, or an input is no single image.
    """
    library, translator = _modules("ncnn", "pnnx")
    arrays = [inputs[n] for n in model.inputs]
    if any(a.dtype != np.float32 or not 2 <= a.ndim <= 4 or a.shape[0] != 1 for a in arrays):
        raise Skipped(ONE_IMAGE)
    shaped = _with_shapes(model, inputs)
    shapes = [_fixed_shape(o, "ncnn") for o in shaped.graph.output]
    net = library.Net()
    net.opt.num_threads = threads
    for narrow in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
        setattr(net.opt, f"use_{narrow}", False)
    with TemporaryDirectory(prefix="ironworks-ncnn-") as folder:
        _translate(translator, shaped.SerializeToString(), arrays, Path(folder))
        parts = (net.load_param, "model.ncnn.param"), (net.load_model, "model.ncnn.bin")
        if any(load(str(Path(folder, name))) for load, name in parts):
            raise Skipped("ncnn cannot load it: an operator has no layer there")
    # Clones count their references: ncnn would write a layer's result into a borrowed array.
    images = [library.Mat(a[0]).clone() for a in arrays]

    def run() -> Outputs:
        extractor = net.create_extractor()
        for n, image in enumerate(images):
            extractor.input(f"in{n}", image)
        results = [np.array(extractor.extract(f"out{n}")[1]) for n in range(len(shapes))]
        return {n: r.reshape(s) for n, r, s in zip(model.outputs, results, shapes, strict=True)}

    return warm(Peer("ncnn", version("ncnn"), run))


def _modules(*names: str) -> list[Any]:
    """Import modules by name; Skipped with the first that is not installed."""
    try:
        return [import_module(name) for name in names]
    except ModuleNotFoundError as problem:
        raise Skipped(f"{problem.name} is not installed") from problem


def _with_shapes(model: Model, inputs: Inputs) -> Any:
    """Return the model's ONNX proto for the shapes of these inputs, inferred throughout."""
    onnx: Any = import_module("onnx")
    source = onnx_source(model)
    proto = onnx.load_from_string(source) if isinstance(source, bytes) else onnx.load(source)
    for value in proto.graph.input:
        if value.name in inputs:
            dims = inputs[value.name].shape
            kind = value.type.tensor_type.elem_type
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, kind, dims))
    if any(o.domain in ("", "ai.onnx") and o.version < LEAST_OPSET for o in proto.opset_import):
        proto = onnx.version_converter.convert_version(proto, LEAST_OPSET)
    return onnx.shape_inference.infer_shapes(proto, data_prop=True)


def _fixed_shape(value: Any, runtime: str) -> tuple[int, ...]:
    """Return the shape of an output; Skipped if a dim of it is not known before the run."""
    dims = value.type.tensor_type.shape.dim
    if not all(d.HasField("dim_value") for d in dims):
        raise Skipped(f"{runtime} needs the shape of the output {value.name!r} before the run")
    return tuple(d.dim_value for d in dims)


def _translate(translator: Any, proto: bytes, arrays: Sequence[np.ndarray], folder: Path) -> None:
    """Write model.ncnn.param and model.ncnn.bin into the folder.

    Raises:
        Skipped: pnnx refuses the model or takes too long.
    """
    (folder / "model.onnx").write_bytes(proto)
    shapes = ",".join(f"[{','.join(map(str, a.shape))}]f32" for a in arrays)
    command = [translator.EXEC_PATH, "model.onnx", f"inputshape={shapes}", "fp16=0"]
    try:
        subprocess.run(command, cwd=folder, capture_output=True, check=True, timeout=MOST_SECONDS)
    except (subprocess.SubprocessError, OSError) as problem:
        raise Skipped("ncnn cannot run it: pnnx does not translate the model") from problem
