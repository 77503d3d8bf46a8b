"""Where onnxruntime is known to answer otherwise than ONNX says, each with the reason.

Only the operator itself is excused, on such arguments: the rest of the graph is judged, and the
operator is still held against our interpreter, which follows the standard and NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from explorer.ops.images.resampling import positions, sampling, stretches

Arguments = Sequence[np.ndarray]


@dataclass(frozen=True, slots=True)
class Deviation:
    """Operators, the arguments on which they deviate, and why."""

    operators: tuple[str, ...]
    when: Callable[[onnx.NodeProto, Arguments], bool]
    reason: str


def _empty(node: onnx.NodeProto, args: Arguments) -> bool:
    return any(not a.size for a in args)


def _nan(node: onnx.NodeProto, args: Arguments) -> bool:
    return any(a.dtype.kind == "f" and bool(np.isnan(a).any()) for a in args)


def _not_finite(node: onnx.NodeProto, args: Arguments) -> bool:
    return any(a.dtype.kind == "f" and not bool(np.isfinite(a).all()) for a in args)


def _double(node: onnx.NodeProto, args: Arguments) -> bool:
    return bool(args) and args[0].dtype == np.float64


def _aligned(node: onnx.NodeProto, args: Arguments) -> bool:
    return any(a.s == b"align_corners" for a in node.attribute)


def _same(node: onnx.NodeProto, args: Arguments) -> bool:
    return any(a.name == "auto_pad" and a.s.startswith(b"SAME") for a in node.attribute)


def _same_of_short_windows(node: onnx.NodeProto, args: Arguments) -> bool:
    """Whether SAME padding goes by strides that are larger than windows."""
    attrs = {a.name: list(a.ints) for a in node.attribute}
    pairs = zip(attrs.get("kernel_shape", ()), attrs.get("strides", ()))
    return _same(node, args) and any(stride > size for size, stride in pairs)


def _in_padding_alone(node: onnx.NodeProto, args: Arguments) -> bool:
    """Whether a window may touch no element: one with gaps, where there is padding."""
    attrs = {a.name: list(a.ints) for a in node.attribute}
    return any(n > 1 for n in attrs.get("dilations", ())) and any(attrs.get("pads", ()))


def _sums_nothing(node: onnx.NodeProto, args: Arguments) -> bool:
    return bool(args) and args[0].shape[-1:] == (0,)


def _on_a_tie(node: onnx.NodeProto, args: Arguments) -> bool:
    """Whether a place to read lies halfway between two elements, up to rounding."""
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    attrs = {n: v.decode() if isinstance(v, bytes) else v for n, v in attrs.items()}
    how = sampling(attrs)
    numbers = [a.tolist() for a in args[1:] if a.ndim == 1 and a.size]
    if how.mode != "nearest" or not numbers:
        return False
    sizes = args[-1].dtype == np.int64
    found = stretches(
        attrs, args[0].shape, None, None if sizes else numbers[-1], numbers[-1] if sizes else None
    )
    half = 0.5 if how.nearest.startswith("round") else 0.0
    at = np.concatenate(
        [positions(how.coordinate_mode, s) for s in found if not s.is_identity] or [[0.25]]
    )
    return bool((np.abs(at - half - np.round(at - half)) < 1e-5 * (1 + np.abs(at))).any())


def _half(node: onnx.NodeProto, args: Arguments) -> bool:
    return bool(args) and args[0].dtype == np.float16


def _no_trip(node: onnx.NodeProto, args: Arguments) -> bool:
    return bool(args) and (int(args[0]) == 0 or not bool(args[1]))


REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "ArgMax", "ArgMin",
)  # fmt: skip
DEVIATIONS = (
    Deviation(
        REDUCTIONS,
        _empty,
        "a reduction of no elements keeps dims of extent 0 that it should reduce to 1, and gives 0 "
        "for the mean of nothing, where the standard and NumPy give NaN",
    ),
    Deviation(
        ("ArgMax", "ArgMin", "TopK", "ReduceMax", "ReduceMin", "MaxPool", "GlobalMaxPool",
         "Hardmax", "ReduceLogSumExp", "ScatterElements", "ScatterND", "Sign"),
        _nan,
        "its comparisons pass over NaN, by the order of the elements; NumPy, and onnx's evaluator, "
        "let NaN win",
    ),
    Deviation(
        ("MaxPool", "GlobalMaxPool"),
        _not_finite,
        "the largest begins as the least finite number, so a window of -infinity has that",
    ),
    Deviation(
        ("MaxPool",),
        _in_padding_alone,
        "the largest of no element is the least finite number, which it begins as",
    ),
    Deviation(
        ("QLinearMatMul",),
        _sums_nothing,
        "a sum of no products is not written: another value in every run",
    ),
    Deviation(
        ("Resize",),
        _not_finite,
        "elements that weigh nothing are left out, where a sum makes NaN of them",
    ),
    Deviation(
        ("Resize",),
        _aligned,
        "with align_corners it rounds the size of the result before it is divided by, where the "
        "standard's formula takes input times scale; onnx's evaluator does that, too",
    ),
    Deviation(
        ("Resize",),
        _on_a_tie,
        "a place halfway between two elements is computed in float32, whose last bit decides which "
        "is read; ours and onnx's evaluator compute it in float64",
    ),
    Deviation(
        ("QuantizeLinear",),
        _half,
        "float16 is divided in float16, and what overflows becomes the least integer",
    ),
    Deviation(
        ("Clip",),
        _not_finite,
        "a bound that is not given is the largest finite number, so infinity becomes that; onnx's "
        "evaluator leaves it as it is",
    ),
    Deviation(
        ("ConvTranspose",),
        _same,
        "SAME padding is never negative there; the standard's formula makes the result as large as "
        "the input times the stride (onnx operators, ConvTranspose, auto_pad)",
    ),
    Deviation(
        ("LpPool", "AveragePool"),
        _same_of_short_windows,
        "SAME padding is negative there where strides are larger than windows, MaxPool's is not",
    ),
    Deviation(
        ("DFT",),
        _double,
        "its cosines are of float32, 2.7e-8 apart in float64; onnx's evaluator agrees with ours",
    ),
    Deviation(
        ("HardSwish", "Shrink"),
        _double,
        "float64 is computed with constants, or wholly, in float32",
    ),
    Deviation(
        ("LogSoftmax", "Softmax", "GRU", "LSTM", "RNN"),
        _not_finite,
        "its vector functions are cut off, and so do not carry NaN and infinity on",
    ),
    Deviation(
        ("LRN",),
        lambda node, args: True,
        "it slides a sum over the channels, from which it takes what leaves the window: rounding "
        "stays in it (3.6e-6 of the largest value, measured against float64, where ours is 9e-8 "
        "apart), and after infinity NaN",
    ),
    Deviation(
        ("Loop",),
        _no_trip,
        "rows that no trip stacked have extent 0 for every symbol, known or not",
    ),
)  # fmt: skip


def known(node: onnx.NodeProto, values: Mapping[str, np.ndarray]) -> str:
    """Why the answer of onnxruntime to this node is no measure; empty where it is one."""
    args = [values[n] for n in node.input if n in values]
    return next(
        (d.reason for d in DEVIATIONS if node.op_type in d.operators and d.when(node, args)), ""
    )
