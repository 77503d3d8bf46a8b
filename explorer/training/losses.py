"""Losses of classes and of numbers, as means over a batch."""

from __future__ import annotations

from typing import Any

import explorer.np as enp
from explorer.errors import ShapeError


def cross_entropy(scores: Any, labels: Any) -> Any:
    """How unexpected the labels are, in nats: integers that select from the last axis of scores,
    which are logarithms up to a constant.

    ShapeError where the labels do not have the shape of the scores without its last dim.

    Source: PyTorch's torch.nn.functional.cross_entropy.
    """
    have, want = labels.shape, scores.shape[:-1]
    sizes = [(n, m) for n, m in zip(have, want) if isinstance(n, int) and isinstance(m, int)]
    if len(have) != len(want) or any(n != m for n, m in sizes):
        raise ShapeError(
            f"cross_entropy has labels of shape {list(have)} for scores of shape "
            f"{list(scores.shape)}",
            where="cross_entropy",
            expected=f"labels of shape {list(want)}",
            found=list(have),
        )
    found = enp.take_along_axis(enp.log_softmax(scores, axis=-1), labels[..., None], axis=-1)
    return -found.mean()


def binary_cross_entropy(scores: Any, labels: Any) -> Any:
    """The same for labels of 0 and 1, or between them, and the logarithm of their odds; no score is
    too large.

    Source: PyTorch's torch.nn.functional.binary_cross_entropy_with_logits.
    """
    return (enp.maximum(scores, 0) - scores * labels + enp.log1p(enp.exp(-enp.abs(scores)))).mean()


def squared_error(found: Any, wanted: Any) -> Any:
    """The mean of squared differences."""
    return ((found - wanted) ** 2).mean()
