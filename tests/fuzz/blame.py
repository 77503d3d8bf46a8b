"""Which operator is it that onnxruntime sees otherwise? Each node is asked alone, on our values."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from explorer.frontends.load import load
from explorer.ir.program import Program
from explorer.relax import deduce
from tests.fuzz.compare import compare
from tests.fuzz.deviations import known
from tests.fuzz.exact import Bound, bounds, evaluated
from tests.fuzz.oracle import NoAnswer, Oracle

Arrays = Mapping[str, np.ndarray]


def alone(model: onnx.ModelProto, node: onnx.NodeProto, values: Arrays) -> onnx.ModelProto:
    """A model of one node; its arguments are inputs, but for those that are constants."""
    constants = {i.name: i for i in model.graph.initializer}
    read = [n for n in reads(node) if n in constants or n in values]
    names = list(dict.fromkeys(n for n in read if n not in constants))
    inputs = [
        helper.make_tensor_value_info(
            n, helper.np_dtype_to_tensor_dtype(values[n].dtype), values[n].shape
        )
        for n in names
    ]
    outputs = [onnx.ValueInfoProto(name=n) for n in node.output if n]
    kept = [constants[n] for n in dict.fromkeys(read) if n in constants]
    graph = helper.make_graph([node], "alone", inputs, outputs, kept)
    made = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    return made


def with_every_value(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the results of all its nodes as outputs."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    known = {o.name for o in found.graph.output}
    for node in found.graph.node:
        for name in node.output:
            if name and name not in known:
                found.graph.output.add(name=name)
    return found


def reads(node: onnx.NodeProto) -> list[str]:
    """What a node reads, its bodies included."""
    found = [n for n in node.input if n]
    for attribute in node.attribute:
        if attribute.HasField("g"):
            made = {v.name for v in attribute.g.input} | {v.name for v in attribute.g.initializer}
            for inner in attribute.g.node:
                found += [n for n in reads(inner) if n not in made]
                made.update(inner.output)
            found += [o.name for o in attribute.g.output if o.name not in made]
    return found


def nodes_seen_otherwise(
    model: onnx.ModelProto, feeds: Arrays, problem: str
) -> list[tuple[str, str]]:
    """The operators on which the oracle and our interpreter differ, and how; the whole graph where
    they agree on every one.
    """
    with tempfile.TemporaryDirectory() as folder:
        values = {**feeds, **_values(with_every_value(model), feeds, Path(folder))}
        found, excused = [], False
        constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
        for node in model.graph.node:
            if known(node, {**constants, **values}):
                excused = True
                continue
            one = alone(model, node, values)
            given = {i.name: values[i.name] for i in one.graph.input}
            try:
                oracle = Oracle(one)
                answers = oracle(given)
                right = bounds(_program(one, Path(folder)), given)
            except NoAnswer:
                continue
            wrong = compare(answers, right)
            if wrong:
                story = f"{oracle.by} sees {node.op_type} otherwise: {wrong}"
                found.append((node.op_type, story + _third(oracle, given, right)))
    if found or excused or any(_overflows(n, {**constants, **values}) for n in model.graph.node):
        return found  # next to infinity a last bit decides what is finite, and then what is NaN
    if any(v.dtype == np.float16 for v in values.values()):
        return []  # onnxruntime keeps float32 between operators that it has no float16 kernels for
    return [("whole graph", f"no operator alone, but the graph: {problem}")]


def _overflows(node: onnx.NodeProto, values: Arrays) -> bool:
    """Whether a node makes of finite arguments what is infinite, or nearly so."""
    args = [values[n] for n in reads(node) if n in values]
    made = [values[n] for n in node.output if n in values]
    return not any(map(_nearly_infinite, args)) and any(map(_nearly_infinite, made))


def _nearly_infinite(value: np.ndarray) -> bool:
    if value.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        return bool((np.abs(value) > 0.98 * np.finfo(value.dtype).max).any())


def _third(oracle: Oracle, given: Arrays, right: Mapping[str, Bound]) -> str:
    """Whom onnx's own evaluator agrees with."""
    try:
        agrees = not compare(oracle.reference(given), right)
    except NoAnswer:
        return "; onnx's evaluator has no answer"
    return f"; onnx's evaluator {'agrees with ours' if agrees else 'does not agree with ours'}"


def _values(model: onnx.ModelProto, feeds: Arrays, folder: Path) -> dict[str, np.ndarray]:
    with np.errstate(all="ignore"):
        return evaluated(_program(model, folder), feeds)


def _program(model: onnx.ModelProto, folder: Path) -> Program:
    path = folder / "one.onnx"
    path.write_bytes(model.SerializeToString())
    return deduce(load(path).program)
