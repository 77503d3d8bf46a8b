"""Losses of classes and of numbers, as means over a batch."""

from __future__ import annotations

from typing import Any

import explorer.np as enp


def cross_entropy(scores: Any, labels: Any) -> Any:
    """How unexpected the labels are, in nats: integers that select from the last axis of scores,
    which are logarithms up to a constant.

    Source: PyTorch's torch.nn.functional.cross_entropy.
    """
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
