"""Losses for classification and regression, as means over a batch."""

from __future__ import annotations

from typing import Any

import explorer.np as enp
from explorer.errors import ShapeError


def cross_entropy(scores: Any, labels: Any) -> Any:
    """Return the mean cross entropy in nats.

    Labels are integers that select from the last axis of scores, which are unnormalised
    log-probabilities. Source: PyTorch's torch.nn.functional.cross_entropy.

    Raises:
        ShapeError: the labels do not have the shape of the scores without its last dim.
    """
    have, want = labels.shape, scores.shape[:-1]
    sizes = [(n, m) for n, m in zip(have, want) if isinstance(n, int) and isinstance(m, int)]
    if len(have) != len(want) or any(n != m for n, m in sizes):
        raise ShapeError(
            f"cross_entropy has labels of shape {list(have)} for scores of shape "
            f"{list(scores.shape)}",
            where="cross_entropy",
            expected=f"labels of shape {list(want)}",
            actual=list(have),
        )
    log_likelihood = enp.take_along_axis(
        enp.log_softmax(scores, axis=-1), labels[..., None], axis=-1
    )
    return -log_likelihood.mean()


def binary_cross_entropy(scores: Any, labels: Any) -> Any:
    """Return the mean cross entropy of labels in [0, 1] and logits, stable for scores of any size.

    Source: PyTorch's torch.nn.functional.binary_cross_entropy_with_logits.
    """
    return (enp.maximum(scores, 0) - scores * labels + enp.log1p(enp.exp(-enp.abs(scores)))).mean()


def squared_error(outputs: Any, targets: Any) -> Any:
    """Return the mean of squared differences."""
    return ((outputs - targets) ** 2).mean()
