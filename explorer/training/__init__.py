"""Training as one program: a step's forward, backward and update, with nothing read by the host.

The mechanisms are those of sync-free optimizers in PyTorch/XLA (pull requests 3119, 3145 and 3294
of pytorch/xla): whether a step is skipped is data, and so are its counter and the scale of the
loss.
"""

from __future__ import annotations

from explorer.training.adam import Adam, AdamW
from explorer.training.loss_scale import LossScale
from explorer.training.sgd import SGD
from explorer.training.step import first_state, train_step

__all__ = ["SGD", "Adam", "AdamW", "LossScale", "first_state", "train_step"]
