"""Operators that ONNX defines by others: a model of one node, whose gradient is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

import explorer
from explorer.frontends.model import Model
from explorer.gradients import evaluate
from explorer.ir.calls import Gradient, Var
from explorer.ir.program import Binding, Function
from explorer.ir.types import Tensor
from tests.transforms.autodiff.torch_cases.case import (
    Case,
    Derivatives,
    Run,
    case,
    positive,
    some,
    torch,
)

F = torch.nn.functional
OPSET = 24


@dataclass(frozen=True, slots=True)
class Node:
    """An operator and what PyTorch says of it; no argument is left out."""

    op: str
    case: Case
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """ONNX writes some bodies with numbers of float32."""
        narrow = self.op in ("Attention", "MeanVarianceNormalization")
        return ("float32",) if narrow else ("float32", "float64")

    def model(self, args: Sequence[np.ndarray], wanted: Derivatives, folder: Path) -> Model:
        """Of seeds, then arguments: results, then what is handed back."""
        loaded = explorer.load(self._written(args, len(wanted.values), folder)).program
        inner = replace(loaded.main, name="node")
        given = tuple(Var(f"in{n}", p.type) for n, p in enumerate(inner.params))
        seeds = tuple(Var(f"seed{n}", _type(s)) for n, s in enumerate(wanted.seeds))
        wrt = tuple(n for n, a in enumerate(args) if a.dtype.kind == "f")
        made = [*wanted.values, *wanted.gradients]
        results = tuple(Var(f"out{n}", _type(a)) for n, a in enumerate(made))
        call = Gradient("node", given, wrt, seeds)
        origin = frozenset(s.name for s in loaded.sources)
        main = Function(
            "main",
            (*seeds, *given),
            (Binding(results, call, origin),),
            results,
            tuple(r.name for r in results),
        )
        functions = (main, inner, *loaded.functions[1:])
        return Model("node", "", replace(loaded, functions=functions))

    def _written(self, args: Sequence[np.ndarray], results: int, folder: Path) -> Path:
        names = [f"x{n}" for n in range(len(args))]
        outs = [f"y{n}" for n in range(results)]
        kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in args]
        graph = helper.make_graph(
            [helper.make_node(self.op, names, outs, **self.attrs)],
            "node",
            [
                helper.make_tensor_value_info(n, k, a.shape)
                for n, k, a in zip(names, kinds, args, strict=True)
            ],
            [helper.make_tensor_value_info(n, kinds[0], None) for n in outs],
        )
        opsets = [helper.make_opsetid("", OPSET)]
        path = folder / "node.onnx"
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
        return path


def _type(array: np.ndarray) -> Tensor:
    return Tensor(array.shape, array.dtype.name)


def by_interpreter(model: Model, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    names = [p.name for p in model.program.main.params]
    return list(evaluate(model.program, dict(zip(names, args, strict=True))).values())


def compiled(model: Model, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    c = explorer.compile(model, check=True)
    assert not [(s.name, s.checked) for s in c.snapshots if isinstance(s.checked, str)]
    return list(c.run(*args).values())


def node(op: str, theirs: Run, *args: Any, **attrs: Any) -> Node:
    return Node(op, case(None, theirs, *args), attrs)  # type: ignore[arg-type]


LOGITS, TARGET = some(4, 5), np.array([1, 0, 4, 2])
MAPS, PLACES = some(2, 5, 3, 2), np.array([[[0, 1], [4, 2], [3, 3]], [[1, 1], [0, 4], [2, 0]]])
HEADS = [some(2, 3, n, 4, seed=n) for n in (5, 6, 6)]


def flat_loss(theirs: Run, **options: Any) -> Run:
    return lambda x, t: theirs(x, t, **options)


CASES: dict[str, Node] = {
    "cross entropy": node("SoftmaxCrossEntropyLoss", flat_loss(F.cross_entropy), LOGITS, TARGET),
    "cross entropy, summed": node(
        "SoftmaxCrossEntropyLoss",
        flat_loss(F.cross_entropy, reduction="sum"),
        LOGITS,
        TARGET,
        reduction="sum",
    ),
    "cross entropy, of each": node(
        "SoftmaxCrossEntropyLoss",
        flat_loss(F.cross_entropy, reduction="none"),
        LOGITS,
        TARGET,
        reduction="none",
    ),
    "cross entropy, one class ignored": node(
        "SoftmaxCrossEntropyLoss",
        flat_loss(F.cross_entropy, ignore_index=4),
        LOGITS,
        TARGET,
        ignore_index=4,
    ),
    "cross entropy, weighted": node(
        "SoftmaxCrossEntropyLoss",
        lambda x, t, w: -(x.log_softmax(1)[range(4), t] * w[t]).sum() / w[t].sum(),
        LOGITS,
        TARGET,
        positive(5),
    ),
    "cross entropy, of images": node(
        "SoftmaxCrossEntropyLoss",
        F.cross_entropy,
        MAPS,
        PLACES,
    ),
    "cross entropy and its logarithms": node(
        "SoftmaxCrossEntropyLoss",
        lambda x, t: (F.cross_entropy(x, t), x.log_softmax(1)),
        LOGITS,
        TARGET,
    ),
    "negative log likelihood": node(
        "NegativeLogLikelihoodLoss", flat_loss(F.nll_loss), LOGITS, TARGET
    ),
    "negative log likelihood, one class ignored": node(
        "NegativeLogLikelihoodLoss",
        flat_loss(F.nll_loss, ignore_index=4),
        LOGITS,
        TARGET,
        ignore_index=4,
    ),
    "attention": node("Attention", F.scaled_dot_product_attention, *HEADS),
    "attention, causal": node(
        "Attention",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        *HEADS,
        is_causal=1,
    ),
    "attention, a bias": node("Attention", F.scaled_dot_product_attention, *HEADS, some(5, 6)),
    "mean variance normalization": node(
        "MeanVarianceNormalization",
        lambda x: (
            (x - x.mean((0, 2, 3), keepdim=True))
            / (x.std((0, 2, 3), correction=0, keepdim=True) + 1e-9)
        ),
        some(2, 3, 4, 4),
    ),
    "rotary embedding": node(
        "RotaryEmbedding",
        lambda x, c, s: torch.cat(
            [
                x[..., :2] * c[:, None] - x[..., 2:] * s[:, None],
                x[..., :2] * s[:, None] + x[..., 2:] * c[:, None],
            ],
            -1,
        ),
        some(2, 3, 5, 4),
        some(2, 5, 2),
        some(2, 5, 2, seed=1),
    ),
    "affine grid": node(
        "AffineGrid",
        lambda t, s: F.affine_grid(t, [2, 1, 3, 4], align_corners=False),
        some(2, 2, 3),
        np.array([2, 1, 3, 4]),
    ),
}
