"""What onnxruntime answers, and how far an answer may be from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime

from explorer.frontends.model import Model
from explorer.ir.dims import evaluate_shape

LARGEST_ERROR = 1e-4  # of the largest answer


class Oracle:
    """onnxruntime's answers for one file."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 2
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(str(path), options)

    def __call__(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        names = [o.name for o in self.session.get_outputs()]
        return dict(zip(names, self.session.run(None, dict(feeds)), strict=True))


def inputs(model: Model, sizes: Mapping[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs: token numbers of a vocabulary of 500, or numbers near 1."""
    random = np.random.default_rng(seed)
    found = {}
    for name, kind in model.inputs.items():
        shape = evaluate_shape(kind.dims, sizes)
        whole = kind.dtype == "int64"
        found[name] = (
            random.integers(0, 500, shape)
            if whole
            else random.standard_normal(shape).astype(np.float32)
        )
    return found


def agree(found: Mapping[str, np.ndarray], right: Mapping[str, np.ndarray]) -> None:
    """Same names, shapes and dtypes, and the largest error is small."""
    assert list(found) == list(right)
    for name, wanted in right.items():
        assert found[name].dtype == wanted.dtype, name
        assert found[name].shape == wanted.shape, name
        error = np.abs(found[name].astype(np.float64) - wanted).max(initial=0)
        assert error <= LARGEST_ERROR * np.abs(wanted).max(initial=1e-30), name
