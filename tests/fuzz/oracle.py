"""What others answer: onnxruntime without its optimisations, else onnx's reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

Arrays = Mapping[str, np.ndarray]


class NoAnswer(Exception):
    """Neither can run the model."""


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """onnxruntime on one thread, running the graph as it is written."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


class Oracle:
    """The answers to one model; `by` says whose they are.

    onnxruntime is not asked about inputs without elements: it ends the process where it normalises
    none (InstanceNormalization of [1, 3, 0], 1.31), which no test survives.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.by = "onnxruntime"
        try:
            self.session: onnxruntime.InferenceSession | None = session(model)
        except Exception:  # its errors share no class
            self.session = None

    def __call__(self, feeds: Arrays) -> dict[str, np.ndarray]:
        """The outputs by name; raises NoAnswer."""
        names = [o.name for o in self.model.graph.output]
        some = all(a.size for a in feeds.values())
        if self.session is not None and some:
            try:
                self.by = "onnxruntime"
                return dict(zip(names, self.session.run(None, dict(feeds)), strict=True))
            except Exception:
                pass
        return self.reference(feeds)

    def reference(self, feeds: Arrays) -> dict[str, np.ndarray]:
        """The outputs as onnx's own evaluator gives them; raises NoAnswer."""
        self.by = "onnx"
        names = [o.name for o in self.model.graph.output]
        try:
            with np.errstate(all="ignore"):
                found = ReferenceEvaluator(self.model).run(None, dict(feeds))
        except Exception as problem:
            raise NoAnswer(str(problem)) from problem
        return {n: np.asarray(a) for n, a in zip(names, found, strict=True)}
