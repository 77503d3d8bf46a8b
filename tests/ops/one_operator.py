"""A model of one operator, run by onnxruntime and by every stage of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from explorer.frontends.load import load
from explorer.ir.program import Program
from explorer.ir.text.program_text import parse_program, print_program
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.relax import deduce, legalize


@dataclass(frozen=True)
class Case:
    """An operator with its inputs in order; None is left out.

    `known` are the positions of inputs that are constants of the model; `free` the extents that are
    symbols in it; `library` says that a library call is expected.
    """

    op: str
    inputs: Sequence[Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    known: Sequence[int] = ()
    free: Sequence[int] = ()
    opset: int = 18
    outputs: int = 1
    library: bool = False
    tolerance: float = 2e-6
    note: str = ""

    @property
    def name(self) -> str:
        """What the test is called."""
        parts = [self.op, self.note] + [f"free{n}" for n in self.free]
        return "-".join(p for p in (*parts, f"v{self.opset}" if self.opset != 18 else "") if p)


def proto(case: Case) -> onnx.ModelProto:
    """The case as an ONNX model."""
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(case.inputs)]
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, name="node", **case.attrs)
    given = [(i, np.asarray(x)) for i, x in enumerate(case.inputs) if x is not None]
    inputs = [
        helper.make_tensor_value_info(
            f"x{i}",
            helper.np_dtype_to_tensor_dtype(x.dtype),
            [f"n{n}" if n in case.free else n for n in x.shape],
        )
        for i, x in given
        if i not in case.known
    ]
    constants = [numpy_helper.from_array(x, f"x{i}") for i, x in given if i in case.known]
    results = [onnx.ValueInfoProto(name=o) for o in outputs]
    graph = helper.make_graph([node], "case", inputs, results, constants)
    opset = helper.make_opsetid("", case.opset)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10)


def oracle(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What onnxruntime answers."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1  # others would only wait, each for a new model
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return [np.asarray(v) for v in session.run(None, dict(feeds))]


def stages(path: Path) -> tuple[Program, Program, Program]:
    """The program as imported, with annotations, and as kernels."""
    imported = load(path).program
    typed = deduce(imported)
    return imported, typed, legalize(typed)


def check(case: Case, folder: Path) -> None:
    """Every stage answers like onnxruntime, is well formed, and prints to what parses back."""
    model, path = proto(case), folder / "case.onnx"
    onnx.save(model, path)
    feeds = {
        f"x{i}": np.asarray(x)
        for i, x in enumerate(case.inputs)
        if x is not None and i not in case.known
    }
    wanted = oracle(model, feeds)
    programs = stages(path)
    for program in programs:
        verify(program)
        assert parse_program(print_program(program), program.constants) == program
        for found, right in zip(evaluate(program, feeds).values(), wanted, strict=True):
            agree(found, right, case.tolerance, program.stage.name)
    assert bool(programs[-1].library_calls) == case.library


def agree(found: np.ndarray, right: np.ndarray, tolerance: float, where: str) -> None:
    """Equal shapes, dtypes and NaNs; no difference above `tolerance` of the largest value."""
    assert found.dtype == right.dtype, where
    assert found.shape == right.shape, where
    if not np.issubdtype(right.dtype, np.floating):
        np.testing.assert_array_equal(found, right, where)
        return
    scale = np.abs(right[np.isfinite(right)]).max(initial=1e-30)
    np.testing.assert_allclose(found, right, 0, tolerance * scale, equal_nan=True, err_msg=where)
