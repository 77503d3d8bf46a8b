"""One operator in each runtime, in the layout that suits it: what a turn of the race calls.

Ours reads and writes images with channels last, as our kernels do in the middle of a network.
PyTorch is there twice, with channels first and with channels_last. onnxruntime is there twice as
well: with channels first, where it reorders an image on its way in and out, and, where it has a
kernel in its own blocked order (NCHWc), as that kernel alone: its optimised graph is cut where the
reorders end, so it runs as it does in the middle of a network. NumPy is there where it has the
operator. Weights are constants, packed before the clock by those that pack; results go to arrays
made once where a runtime lets one say where (ours, onnxruntime, NumPy; PyTorch makes its own, and
what it gives as a view is made contiguous where moving it is the operator).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile as compile_model
from explorer.rammer import Options as RammerOptions
from tests.benchmarks.single_kernels.case import FIRST, Case, written

BLOCKED = "com.microsoft.nchwc"  # onnxruntime's operators on images in blocks of channels
OURS = "ironworks"


@dataclass(frozen=True, slots=True)
class Runner:
    """One runtime that holds the operator: `run` is timed, `answer` gives its result with channels
    first.
    """

    name: str
    run: Callable[[], object]
    answer: Callable[[], np.ndarray]


def ours(case: Case, threads: int, folder: Path) -> Runner:
    """Our kernel, through the runtime that runs whole models."""
    return _ours(case, compiled(case, threads, folder))


def compiled(case: Case, threads: int, folder: Path) -> Compilation:
    """The operator compiled for so many threads."""
    options = Options(rammer=RammerOptions(threads=threads))
    return compile_model(written(case.proto_channels_last(), folder), options=options)


def _ours(case: Case, c: Compilation) -> Runner:
    given = case.channels_last()
    out = c.run(given)

    def answer() -> np.ndarray:
        found = c.run(given)["y"]
        return found.transpose(FIRST) if case.operator.is_image else found

    return Runner(OURS, c.runnable.prepared(given, out), answer)


def others(case: Case, threads: int, folder: Path) -> Iterator[Runner]:
    """Every other runtime that is installed and has the operator."""
    if find_spec("onnxruntime"):
        yield from _onnxruntime(case, threads, folder)
    if find_spec("torch"):
        yield _torch(case, "torch", case.inputs, case.proto(), folder)
        if case.operator.is_image:
            last = case.channels_last()
            yield _torch(case, "torch.channels_last", last, case.proto_channels_last(), folder)
    if case.operator.numpy is not None:
        yield _numpy(case)


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """PyTorch and NumPy compute with so many threads, and with as many as before afterwards."""
    from threadpoolctl import ThreadpoolController

    blas = ThreadpoolController().select(internal_api="openblas")
    torch: Any = import_module("torch") if find_spec("torch") else None
    before = torch.get_num_threads() if torch else 0
    if torch:
        torch.set_num_threads(threads)
    try:
        with blas.limit(limits=threads):
            yield
    finally:
        if torch:
            torch.set_num_threads(before)


def _numpy(case: Case) -> Runner:
    values = [*case.inputs.values(), *case.weights.values()]
    function, out = case.operator.numpy, np.empty(_result_shape(case), np.float32)
    assert function is not None

    def answer() -> np.ndarray:
        function(values, out)
        return out.copy()

    return Runner("numpy", lambda: function(values, out), answer)


def _result_shape(case: Case) -> tuple[int, ...]:
    inferred = onnx.shape_inference.infer_shapes(case.proto())
    dims = inferred.graph.output[0].type.tensor_type.shape.dim
    return tuple(d.dim_value for d in dims)


def _torch(
    case: Case, name: str, inputs: Mapping[str, np.ndarray], proto: onnx.ModelProto, folder: Path
) -> Runner:
    from explorer.tuning.peers.torch_peer import torch, torch_plan

    plan = torch_plan(written(proto, folder).program)
    given = [torch.from_numpy(x) for x in inputs.values()]
    moves = case.operator.kind == "movement"  # which PyTorch puts off: a view that others pay for

    def run() -> Any:
        with torch.inference_mode():
            found = plan(*given)
            return (found[0].contiguous(),) if moves else found

    def answer() -> np.ndarray:
        found: np.ndarray = run()[0].numpy()
        turned = case.operator.is_image and proto.graph.node[0].op_type == "Transpose"
        return found.transpose(FIRST) if turned else found

    return Runner(name, run, answer)


def _onnxruntime(case: Case, threads: int, folder: Path) -> Iterator[Runner]:
    proto = case.proto()
    yield _session("onnxruntime", proto, case.inputs, threads)
    if not case.operator.is_image:
        return
    blocked = _blocked(proto, folder) if case.operator.op == "Conv" else _as_blocked(proto)
    cut = _cut(blocked, case.inputs)
    if cut is not None:
        inner, given, back = cut
        runner = _session("onnxruntime.nchwc", inner, given, threads)
        answer = runner.answer
        yield Runner(runner.name, runner.run, lambda: back(answer()))


def _session(
    name: str, proto: onnx.ModelProto, inputs: Mapping[str, np.ndarray], threads: int
) -> Runner:
    """A session with its operands bound once, so that a call copies nothing."""
    session, ort = _opened(proto, threads)
    binding = session.io_binding()
    values = {n: ort.OrtValue.ortvalue_from_numpy(x) for n, x in inputs.items()}
    result = proto.graph.output[0].name
    out = ort.OrtValue.ortvalue_from_numpy(session.run([result], dict(inputs))[0])
    for n, value in values.items():
        binding.bind_ortvalue_input(n, value)
    binding.bind_ortvalue_output(result, out)

    def run() -> None:
        session.run_with_iobinding(binding)

    def answer() -> np.ndarray:
        run()
        found: np.ndarray = out.numpy()
        return found

    return Runner(name, run, answer)


def _opened(proto: onnx.ModelProto, threads: int, optimized: Path | None = None) -> tuple[Any, Any]:
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if optimized is not None:
        options.optimized_model_filepath = str(optimized)
    session = ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    return session, ort


def _blocked(proto: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """What onnxruntime makes of a model on this machine."""
    path = folder / "optimized.onnx"
    _opened(proto, 1, path)
    return onnx.load(str(path))


def _as_blocked(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A pooling as onnxruntime runs it behind a convolution: in blocks, between two reorders."""
    (node,) = proto.graph.node
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    nodes = [
        helper.make_node("ReorderInput", [node.input[0]], ["before"], domain=BLOCKED),
        helper.make_node(node.op_type, ["before"], ["after"], domain=BLOCKED, **attrs),
        helper.make_node("ReorderOutput", ["after"], ["y"], domain=BLOCKED, channels=shape[1]),
    ]
    return _with_nodes(proto, nodes, list(proto.graph.input), list(proto.graph.output))


Back = Callable[[np.ndarray], np.ndarray]


def _cut(
    blocked: onnx.ModelProto, inputs: Mapping[str, np.ndarray]
) -> tuple[onnx.ModelProto, dict[str, np.ndarray], Back] | None:
    """The node in blocked order alone, what it reads, and the way back to channels first; None
    where onnxruntime has no such kernel for it.
    """
    nodes = {n.op_type: n for n in blocked.graph.node if n.domain == BLOCKED}
    inner = next((n for kind, n in nodes.items() if not kind.startswith("Reorder")), None)
    leave = nodes.get("ReorderOutput")
    if inner is None or leave is None:
        return None
    graph = blocked.graph
    given = dict(inputs)
    if "ReorderInput" in nodes:
        entered = _info(inner.input[0], None)
        enter = _with_nodes(blocked, [nodes["ReorderInput"]], list(graph.input), [entered])
        given = {inner.input[0]: _opened(enter, 1)[0].run(None, dict(inputs))[0]}
    free = [_info(n, x.shape) for n, x in given.items()]
    alone = _with_nodes(blocked, [inner], free, [_info(inner.output[0], None)])
    after = _with_nodes(blocked, [leave], [_info(leave.input[0], (None,) * 4)], [_info("y", None)])

    def back(found: np.ndarray) -> np.ndarray:
        result: np.ndarray = _opened(after, 1)[0].run(None, {leave.input[0]: found})[0]
        return result

    return alone, given, back


def _info(name: str, shape: tuple[int | None, ...] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)


def _with_nodes(
    proto: onnx.ModelProto,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
) -> onnx.ModelProto:
    reads = {name for node in nodes for name in node.input}
    weights = [w for w in proto.graph.initializer if w.name in reads]
    graph = helper.make_graph(nodes, proto.graph.name, inputs, outputs, weights)
    opsets = [
        *(o for o in proto.opset_import if o.domain != BLOCKED),
        helper.make_opsetid(BLOCKED, 1),
    ]
    return helper.make_model(graph, opset_imports=opsets, ir_version=proto.ir_version)
