"""Roller's operator classes at CPU sizes: which single operators the kernel table races.

The paper (Zhu et al. 2022, section 5) takes its operators from ResNet-50, NASNet, BERT and LSTM at
batch 128; here they are at batch 1 and 8, with MobileNetV2 for its depthwise convolutions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np

Shape = tuple[int, ...]
Arrays = Sequence[np.ndarray]
NumPy = Callable[[Arrays, np.ndarray], object]  # (inputs and weights, where the result goes)

RESNET, MOBILENET, NASNET = "ResNet-50", "MobileNetV2", "NASNet-A large"
BERT, LSTM, DENSENET = "BERT base", "LSTM 10 x 100, 256 hidden", "DenseNet-121"
VOCABULARY = 30522
SIX = (np.array(0.0, np.float32), np.array(6.0, np.float32))


@dataclass(frozen=True, slots=True)
class Operator:
    """One ONNX operator with random weights; the leading extent of every input is times the batch.

    `operations` counts those of batch 1, a multiply-add as two, and is 0 where bytes are what
    counts. `parameters`: inputs after the weights whose values are part of the operator.
    `choices`: what an input of integers selects from.
    """

    name: str
    kind: str
    source: str
    op: str
    inputs: tuple[Shape, ...]
    weights: tuple[Shape, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    parameters: tuple[np.ndarray, ...] = ()
    operations: int = 0
    numpy: NumPy | None = None
    batches: tuple[int, ...] = (1, 8)
    choices: int = 0

    @property
    def is_image(self) -> bool:
        """Whether its operands are images, whose channels a runtime may lay out as it likes."""
        return self.kind in ("conv", "depthwise", "pooling")

    def shapes(self, batch: int) -> tuple[Shape, ...]:
        """The shapes of its inputs at a batch."""
        return tuple((batch * shape[0], *shape[1:]) for shape in self.inputs)


def operators() -> tuple[Operator, ...]:
    """All of them, in classes."""
    return (*_products(), *_convolutions(), *_windows(), *_reductions(), *_maps(), *_moves())


def _products() -> tuple[Operator, ...]:
    return (
        _dense("matmul_bert_projection", BERT, 128, 768, 768),
        _dense("matmul_bert_ffn_up", BERT, 128, 768, 3072),
        _dense("matmul_bert_ffn_down", BERT, 128, 3072, 768),
        _batched("matmul_bert_scores", (12, 128, 64), (12, 64, 128)),
        _batched("matmul_bert_context", (12, 128, 128), (12, 128, 64)),
        _dense("matmul_lstm_gates", LSTM, 1, 256, 1024),
        _dense("matmul_lstm_steps", LSTM, 100, 256, 1024),
        _dense("matmul_resnet_classes", RESNET, 1, 2048, 1000),
        _dense("matmul_nasnet_classes", NASNET, 1, 4032, 1000),
    )


def _dense(name: str, source: str, rows: int, inner: int, columns: int) -> Operator:
    count = 2 * rows * inner * columns
    shapes = ((rows, inner),), ((inner, columns),)
    return Operator(name, "matmul", source, "MatMul", *shapes, operations=count, numpy=_matmul)


def _batched(name: str, left: Shape, right: Shape) -> Operator:
    count = 2 * prod(left) * right[-1]
    return Operator(name, "matmul", BERT, "MatMul", (left, right), operations=count, numpy=_matmul)


def _convolutions() -> tuple[Operator, ...]:
    return (
        _conv(RESNET, 3, 64, 224, 7, 2),
        _conv(RESNET, 64, 64, 56, 3),
        _conv(RESNET, 128, 128, 28, 3),
        _conv(RESNET, 256, 256, 14, 3),
        _conv(RESNET, 512, 512, 7, 3),
        _conv(RESNET, 128, 128, 56, 3, 2),
        _conv(RESNET, 64, 256, 56, 1),
        _conv(RESNET, 1024, 256, 14, 1),
        _conv(RESNET, 512, 1024, 28, 1, 2),
        _conv(MOBILENET, 3, 32, 224, 3, 2),
        _conv(MOBILENET, 24, 144, 56, 1),
        _conv(MOBILENET, 144, 24, 56, 1),
        _conv(NASNET, 42, 42, 83, 1),
        _conv(NASNET, 96, 42, 83, 1),
        _depthwise(MOBILENET, 32, 112, 3),
        _depthwise(MOBILENET, 96, 112, 3, 2),
        _depthwise(MOBILENET, 144, 56, 3),
        _depthwise(MOBILENET, 384, 14, 3),
        _depthwise(MOBILENET, 960, 7, 3),
        _depthwise(NASNET, 84, 83, 5),
        _depthwise(NASNET, 84, 83, 5, 2),
        _depthwise(NASNET, 168, 42, 7),
    )


def _conv(source: str, inner: int, outer: int, pixels: int, size: int, stride: int = 1) -> Operator:
    name = f"conv{size}x{size}{_by(stride)}_{inner}_{outer}_{pixels}"
    return _windowed("conv", name, source, (outer, inner), pixels, size, stride)


def _depthwise(source: str, channels: int, pixels: int, size: int, stride: int = 1) -> Operator:
    name = f"depthwise{size}x{size}{_by(stride)}_{channels}_{pixels}"
    return _windowed("depthwise", name, source, (channels, 1), pixels, size, stride)


def _by(stride: int) -> str:
    return f"s{stride}" if stride > 1 else ""


def _windowed(
    kind: str, name: str, source: str, channels: Shape, pixels: int, size: int, stride: int
) -> Operator:
    outer, inner = channels
    groups = outer if kind == "depthwise" else 1
    attrs = {
        "kernel_shape": [size, size],
        "strides": [stride, stride],
        "pads": [size // 2] * 4,
        "group": groups,
    }
    out = (pixels + 2 * (size // 2) - size) // stride + 1
    count = 2 * outer * inner * size * size * out * out
    given, weight = (1, inner * groups, pixels, pixels), (outer, inner, size, size)
    return Operator(name, kind, source, "Conv", (given,), (weight, (outer,)), attrs, (), count)


def _windows() -> tuple[Operator, ...]:
    return (
        _pool("MaxPool", RESNET, 64, 112, 3, 2),
        _pool("MaxPool", NASNET, 168, 83, 3, 2),
        _pool("MaxPool", NASNET, 168, 83, 3, 1),
        _pool("AveragePool", NASNET, 168, 83, 3, 1),
        _pool("AveragePool", DENSENET, 128, 56, 2, 2, 0),
        Operator(
            "global_average_2048_7",
            "pooling",
            RESNET,
            "GlobalAveragePool",
            ((1, 2048, 7, 7),),
        ),
    )


def _pool(
    op: str, source: str, channels: int, pixels: int, size: int, stride: int, pad: int = 1
) -> Operator:
    name = f"{op.removesuffix('Pool').lower()}_pool{size}x{size}{_by(stride)}_{channels}_{pixels}"
    attrs = {"kernel_shape": [size, size], "strides": [stride, stride], "pads": [pad] * 4}
    return Operator(name, "pooling", source, op, ((1, channels, pixels, pixels),), (), attrs)


def _reductions() -> tuple[Operator, ...]:
    softmax = partial(Operator, op="Softmax", kind="softmax", numpy=_softmax)
    return (
        _reduce("reduce_mean_512_1024", "ReduceMean", BERT, (512, 1024), (-1,), np.mean),
        _reduce("reduce_max_512_1024", "ReduceMax", BERT, (512, 1024), (-1,), np.max),
        _reduce("reduce_sum_128_512_768", "ReduceSum", BERT, (4, 128, 768), (1,), np.sum),
        _reduce("reduce_mean_4032_11", "ReduceMean", NASNET, (1, 4032, 11, 11), (2, 3), np.mean),
        softmax(name="softmax_bert_12_128_128", source=BERT, inputs=((12, 128, 128),)),
        softmax(name="softmax_classes_1000", source=RESNET, inputs=((1, 1000),)),
        softmax(name="softmax_vocabulary", source=BERT, inputs=((16, VOCABULARY),), batches=(1,)),
        _norm("layer_norm_bert_128_768", (128, 768)),
        _norm("layer_norm_bert_512_1024", (512, 1024)),
    )


def _reduce(
    name: str,
    op: str,
    source: str,
    shape: Shape,
    axes: Shape,
    by: Callable[..., object],
) -> Operator:
    def numpy(values: Arrays, out: np.ndarray) -> object:
        return by(values[0], axis=axes, out=out)

    attrs, over = {"keepdims": 0}, (np.array(axes),)
    return Operator(
        name, "reduction", source, op, (shape,), attrs=attrs, parameters=over, numpy=numpy
    )


def _norm(name: str, shape: Shape) -> Operator:
    weights = (shape[-1:], shape[-1:])
    attrs = {"axis": -1}
    return Operator(
        name, "layer norm", BERT, "LayerNormalization", (shape,), weights, attrs, numpy=_normed
    )


def _maps() -> tuple[Operator, ...]:
    image, hidden = (1, 256, 56, 56), (128, 3072)
    return (
        _map("relu_256_56", "Relu", RESNET, (image,), lambda v, o: np.maximum(v[0], 0, out=o)),
        _map("add_256_56", "Add", RESNET, (image, image), _added),
        _map("relu6_96_112", "Clip", MOBILENET, ((1, 96, 112, 112),), _clipped, (), SIX),
        _map("add_bias_bert", "Add", BERT, (hidden,), _added, (hidden[1:],)),
        _map("gelu_bert", "Gelu", BERT, (hidden,), None),
        _map("tanh_lstm", "Tanh", LSTM, ((100, 256),), lambda v, o: np.tanh(v[0], out=o)),
        _map("sigmoid_lstm", "Sigmoid", LSTM, ((100, 768),), _sigmoid),
        _map("exp_bert", "Exp", BERT, ((12, 128, 128),), lambda v, o: np.exp(v[0], out=o)),
    )


def _map(
    name: str,
    op: str,
    source: str,
    inputs: tuple[Shape, ...],
    numpy: NumPy | None,
    weights: tuple[Shape, ...] = (),
    parameters: tuple[np.ndarray, ...] = (),
) -> Operator:
    return Operator(
        name, "elementwise", source, op, inputs, weights, parameters=parameters, numpy=numpy
    )


def _moves() -> tuple[Operator, ...]:
    move = partial(Operator, kind="movement")
    image, part = (1, 256, 56, 56), (1, 128, 56, 56)
    return (
        _transpose("transpose_heads_bert", BERT, (1, 128, 12, 64), (0, 2, 1, 3)),
        _transpose("transpose_keys_bert", BERT, (12, 128, 64), (0, 2, 1)),
        _transpose("transpose_channels_last", RESNET, image, (0, 2, 3, 1)),
        _transpose("transpose_channels_first", RESNET, (1, 56, 56, 256), (0, 3, 1, 2)),
        _transpose("transpose_square_1024", BERT, (1, 1024, 1024), (0, 2, 1)),
        move(
            name="gather_rows_bert",
            source=BERT,
            op="Gather",
            inputs=((128,),),
            weights=((VOCABULARY, 768),),
            choices=VOCABULARY,
            numpy=lambda v, o: np.take(v[1], v[0], axis=0, out=o, mode="clip"),
        ),
        move(
            name="concat_channels_densenet",
            source=DENSENET,
            op="Concat",
            inputs=(part, part),
            attrs={"axis": 1},
            numpy=lambda v, o: np.concatenate(v, axis=1, out=o),
        ),
        move(
            name="slice_heads_bert",
            source=BERT,
            op="Slice",
            inputs=((128, 2304),),
            parameters=(np.array([768]), np.array([1536]), np.array([1])),
            numpy=_sliced,
        ),
    )


def _transpose(name: str, source: str, shape: Shape, perm: Shape) -> Operator:
    def numpy(values: Arrays, out: np.ndarray) -> None:
        np.copyto(out, values[0].transpose(perm))

    attrs = {"perm": list(perm)}
    return Operator(name, "movement", source, "Transpose", (shape,), attrs=attrs, numpy=numpy)


def _matmul(values: Arrays, out: np.ndarray) -> object:
    return np.matmul(values[0], values[1], out=out)


def _added(values: Arrays, out: np.ndarray) -> object:
    return np.add(values[0], values[1], out=out)


def _sliced(values: Arrays, out: np.ndarray) -> None:
    np.copyto(out, values[0][:, 768:1536])


def _clipped(values: Arrays, out: np.ndarray) -> object:
    return np.clip(values[0], 0.0, 6.0, out=out)


def _sigmoid(values: Arrays, out: np.ndarray) -> None:
    np.negative(values[0], out=out)
    np.exp(out, out=out)
    np.add(out, 1.0, out=out)
    np.reciprocal(out, out=out)


def _softmax(values: Arrays, out: np.ndarray) -> None:
    np.subtract(values[0], values[0].max(-1, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, out.sum(-1, keepdims=True), out=out)


def _normed(values: Arrays, out: np.ndarray) -> None:
    x, scale, bias = values
    np.subtract(x, x.mean(-1, keepdims=True), out=out)
    variance = np.square(out).mean(-1, keepdims=True)
    np.divide(out, np.sqrt(variance + 1e-5), out=out)
    np.multiply(out, scale, out=out)
    np.add(out, bias, out=out)
