"""Programs for the storage planner: ONNX nodes as kernels, or calls written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from explorer.devices.model import Device, MemoryLevel
from explorer.frontends.load import load
from explorer.grinder import uprogram
from explorer.ir.dims import Dim, Shape, evaluate_dim
from explorer.ir.program import Program
from explorer.memory.plan import Options
from explorer.memory.storages import Storage, StoragePlan
from explorer.rammer import Options as RammerOptions
from explorer.relax import deduce, legalize
from explorer.runtime.planning.plan import Planner
from explorer.runtime.planning.task_times import TaskFact

DEVICE = Device(
    "test", "cpu", 2, 16, 32, 2.0, 3.0, (MemoryLevel("DRAM", None, 20.0, 64, True),), 1.0, 0.2, 10.0
)


def model(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray] | None = None,
    dtypes: Mapping[str, int] | None = None,
    bounds: Mapping[str, object] | None = None,
):
    """A small ONNX model, loaded."""
    kinds = dtypes or {}
    graph = helper.make_graph(
        list(nodes),
        "small",
        [
            helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), s)
            for n, s in inputs.items()
        ],
        [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), None) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, path / "small.onnx")
    return load(str(path / "small.onnx"), bounds)


def kernels_of(loaded) -> Program:
    """A model as kernels, one an operator: nothing is folded or welded."""
    return legalize(deduce(loaded.program))


def planner(program: Program, **options) -> Planner:
    """What plans a program, with storages."""
    chosen = Options(**{"policy": "storages", **options})
    tasks = uprogram(program)
    one = TaskFact(1, 1.0)
    return Planner(tasks, program.env, DEVICE, lambda o, s: one, RammerOptions(), chosen)


def storages_of(program: Program, **options) -> StoragePlan:
    """Relax's plan of a program."""
    return planner(program, **options).storages


def shared(plan: StoragePlan) -> list[Storage]:
    """The storages in which values take turns."""
    return [s for s in plan.storages if not s.pin_reason]


def names(storage: Storage) -> list[str]:
    return [t.name for t in storage.tokens]


def at(dim: Dim, **sizes: int) -> int:
    return evaluate_dim(dim, sizes)


def chain(path: Path, shape: Shape, bounds=None, last: Dim | int = 10):
    """exp, reshape, relu, + 1, pad by two, log: A6's first program."""
    nodes = [
        helper.make_node("Exp", ["x"], ["a0"]),
        helper.make_node("Reshape", ["a0", "flat"], ["v"]),
        helper.make_node("Relu", ["v"], ["a1"]),
        helper.make_node("Add", ["a1", "one"], ["a2"]),
        helper.make_node("Pad", ["a2", "pads"], ["a3"]),
        helper.make_node("Log", ["a3"], ["y"]),
    ]
    constants = {
        "flat": np.array([-1], np.int64),
        "one": np.ones((1,), np.float32),
        "pads": np.array([1, 1], np.int64),
    }
    return model(path, nodes, {"x": shape}, ["y"], constants, bounds=bounds)
