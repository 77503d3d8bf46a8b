"""Reductions, running ones, normalisations and losses."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer.np as enp
from tests.transforms.autodiff.torch_cases.case import Case, case, op, positive, some, torch

F = torch.nn.functional
ZEROS = np.array([[1.0, 2, 3], [0, 2, 3], [0, 0, 3], [0, 0, 0]])
TIED = np.array([[1.0, 3, 3, 2], [0, 0, 0, 0], [-1, -3, -1, 5]])
MASKED = np.where(some(3, 5) > 0.3, -np.inf, some(3, 5, seed=1))
MASKED[:, 0] = 0.5
X = some(3, 4, 5)
ROWS, SCALE, BIAS = some(4, 6), some(6, seed=1), some(6, seed=2)
IMAGE, CHANNEL = some(2, 4, 3, 3), [some(4, seed=n) for n in range(2)]


def both(ours: Any, theirs: Any, *args: Any, **more: Any) -> dict[str, Case]:
    """Over all, over one dim, and over two that are kept."""
    name = ours.__name__
    return {
        name: case(ours, theirs, *args),
        f"{name}, a dim": case(lambda *v: ours(*v, axis=1), lambda *v: theirs(*v, dim=1), *args),
        f"{name}, kept": case(
            lambda *v: ours(*v, axis=(0, 2), keepdims=True),
            lambda *v: theirs(*v, dim=(0, 2), keepdim=True),
            *args,
        ),
    }


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    return F.layer_norm(x, (6,), scale, bias, 1e-5)


def nll(log_p: Any, target: Any, weights: Any = None) -> Any:
    """The loss in ONNX's operators: what a class has is gathered."""
    picked = enp.take_along_axis(log_p, target[:, None], axis=1)[:, 0]
    if weights is None:
        return -picked.mean()
    each = enp.take(weights, target)
    return -(picked * each).sum() / each.sum()


TARGET = np.array([1, 0, 4, 2])
LOGITS = some(4, 5)
CASES: dict[str, Case] = {
    **both(enp.sum, torch.sum, X),
    **both(enp.mean, torch.mean, X),
    **both(enp.amax, torch.amax, X),
    **both(enp.amin, torch.amin, X),
    **both(enp.logsumexp, lambda x, dim=(0, 1, 2), **k: torch.logsumexp(x, dim, **k), X),
    "amax, ties": case(lambda x: x.max(axis=1), lambda x: x.amax(1), TIED),
    "amin, ties": case(lambda x: x.min(axis=0), lambda x: x.amin(0), TIED),
    "max of all, ties": case(lambda x: x.max(), lambda x: x.max(), TIED),
    "ptp": case(enp.ptp, lambda x: x.max() - x.min(), X),
    "prod": case(enp.prod, torch.prod, some(2, 3)),
    "prod, zeros": case(lambda x: enp.prod(x, axis=1), lambda x: x.prod(1), ZEROS),
    "prod, of all with a zero": case(enp.prod, torch.prod, np.array([1.0, 0, 3])),
    "var": case(enp.var, lambda x: x.var(correction=0), X),
    "var, ddof": case(
        lambda x: enp.var(x, axis=1, ddof=1), lambda x: x.var(dim=1, correction=1), X
    ),
    "std": case(enp.std, lambda x: x.std(correction=0), X),
    "std, a dim": case(
        lambda x: enp.std(x, axis=1, ddof=1, keepdims=True),
        lambda x: x.std(dim=1, keepdim=True),
        X,
    ),
    "std, of what is all the same": case(
        lambda x: enp.std(x, axis=1), lambda x: x.std(dim=1, correction=0), TIED
    ),
    "average": case(
        lambda x, w: enp.average(x, axis=1, weights=w),
        lambda x, w: (x * w).sum(1) / w.sum(1),
        X,
        positive(3, 4, 5),
    ),
    "ReduceL1": case(
        op("ReduceL1", axes=(1,)), lambda x: torch.linalg.vector_norm(x, 1, 1, True), ZEROS
    ),
    "ReduceL2": case(
        op("ReduceL2", axes=(1,)), lambda x: torch.linalg.vector_norm(x, 2, 1, True), ZEROS
    ),
    "ReduceL2 of all": case(op("ReduceL2", keepdims=0), lambda x: torch.linalg.vector_norm(x), X),
    "ReduceSumSquare": case(
        op("ReduceSumSquare", axes=(0,), keepdims=0), lambda x: (x * x).sum(0), X
    ),
    "ReduceLogSum": case(
        op("ReduceLogSum", axes=(1,)), lambda x: x.sum(1, keepdim=True).log(), positive(3, 4)
    ),
    "logsumexp, large": case(
        lambda x: enp.logsumexp(x, axis=1), lambda x: x.logsumexp(1), some(3, 4) * 500
    ),
    "logsumexp, masked": case(lambda x: enp.logsumexp(x, axis=1), lambda x: x.logsumexp(1), MASKED),
    "logsumexp, all masked": case(
        lambda x: enp.logsumexp(x, axis=1),
        lambda x: x.logsumexp(1),
        np.array([[-np.inf, -np.inf], [0, 1], [np.inf, 0]]),
    ),
    "LpNormalization": case(
        op("LpNormalization", axis=1, p=2), lambda x: F.normalize(x, 2.0, 1), some(3, 4)
    ),
    "LpNormalization, by L1": case(
        op("LpNormalization", axis=1, p=1), lambda x: F.normalize(x, 1.0, 1), some(3, 4)
    ),
    "cumsum": case(lambda x: enp.cumsum(x, axis=1), lambda x: x.cumsum(1), X),
    "cumsum of all": case(enp.cumsum, lambda x: x.reshape(-1).cumsum(0), X),
    "CumSum, exclusive, reverse": case(
        lambda x: op("CumSum", exclusive=1, reverse=1)(x, np.asarray(0)),
        lambda x: x.flip(0).cumsum(0).flip(0) - x,
        some(5, 2),
    ),
    "CumProd": case(lambda x: op("CumProd")(x, np.asarray(1)), lambda x: x.cumprod(1), some(3, 4)),
    "CumProd, zeros": case(
        lambda x: op("CumProd")(x, np.asarray(1)), lambda x: x.cumprod(1), ZEROS
    ),
    "diff": case(lambda x: enp.diff(x, 2, axis=1), lambda x: x.diff(2, 1), X),
    "softmax": case(lambda x: enp.softmax(x, axis=1), lambda x: x.softmax(1), X),
    "softmax, large": case(enp.softmax, lambda x: x.softmax(-1), some(3, 4) * 500),
    "softmax, masked": case(enp.softmax, lambda x: x.softmax(-1), MASKED),
    "log_softmax": case(lambda x: enp.log_softmax(x, axis=0), lambda x: x.log_softmax(0), X),
    "log_softmax, large": case(enp.log_softmax, lambda x: x.log_softmax(-1), some(3, 4) * 500),
    "layer_norm": case(enp.layer_norm, layer_norm, ROWS, SCALE, BIAS),
    "layer_norm, of equal elements": case(enp.layer_norm, layer_norm, np.ones((2, 6)), SCALE, BIAS),
    "layer_norm, two dims": case(
        lambda x, s, b: enp.layer_norm(x, s, b, axis=1),
        lambda x, s, b: F.layer_norm(x, (4, 5), s, b),
        X,
        some(4, 5),
        some(4, 5, seed=1),
    ),
    "rms_norm": case(enp.rms_norm, lambda x, s: F.rms_norm(x, (6,), s, 1e-5), ROWS, SCALE),
    "batch norm, training": case(
        lambda x, s, b: op("BatchNormalization", results=3, training_mode=1)(
            x, s, b, np.zeros(4, x.dtype), np.ones(4, x.dtype)
        )[0],
        lambda x, s, b: F.batch_norm(x, None, None, s, b, training=True, eps=1e-5),
        IMAGE,
        *CHANNEL,
    ),
    "batch norm": case(
        op("BatchNormalization"),
        lambda x, s, b, m, v: (
            s[:, None, None] * (x - m[:, None, None]) / (v[:, None, None] + 1e-5).sqrt()
            + b[:, None, None]
        ),
        IMAGE,
        *CHANNEL,
        some(4, seed=7),
        positive(4),
    ),
    "instance norm": case(
        op("InstanceNormalization"),
        lambda x, s, b: F.instance_norm(x, weight=s, bias=b),
        IMAGE,
        *CHANNEL,
    ),
    "group norm": case(
        op("GroupNormalization", num_groups=2),
        lambda x, s, b: F.group_norm(x, 2, s, b),
        IMAGE,
        *CHANNEL,
    ),
    "cross entropy": case(
        lambda x: nll(enp.log_softmax(x, axis=1), TARGET),
        lambda x: F.cross_entropy(x, torch.tensor(TARGET)),
        LOGITS,
    ),
    "cross entropy, weighted": case(
        lambda x, w: nll(enp.log_softmax(x, axis=1), TARGET, w),
        lambda x, w: -(x.log_softmax(1)[range(4), TARGET] * w[TARGET]).sum() / w[TARGET].sum(),
        LOGITS,
        positive(5),
    ),
    "binary cross entropy": case(
        lambda x, y: (enp.maximum(x, 0.0) - x * y + enp.log1p(enp.exp(-enp.abs(x)))).mean(),
        F.binary_cross_entropy_with_logits,
        some(5),
        np.abs(np.sin(some(5, seed=1))),
    ),
    "mean squares": case(lambda x, y: ((x - y) ** 2).mean(), F.mse_loss, some(5), some(5, seed=1)),
    "huber": case(
        lambda x, y: enp.where(enp.abs(x - y) < 1, (x - y) ** 2 * 0.5, enp.abs(x - y) - 0.5).mean(),
        F.huber_loss,
        some(5) * 2,
        some(5, seed=1),
    ),
}
