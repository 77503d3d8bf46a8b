"""Training as one program: a step's forward, backward and update, without reads by the host.

The mechanisms are those of sync-free optimizers in PyTorch/XLA (pull requests 3119, 3145 and 3294
of pytorch/xla): the decision to skip a step is data, and so are the step counter and the loss
scale.
"""

from __future__ import annotations

from explorer.training.dropout import dropout, random_bits
from explorer.training.fitted import Epoch, Fitted, Span, Timeline
from explorer.training.losses import binary_cross_entropy, cross_entropy, squared_error
from explorer.training.optimizers import SGD, Adam, AdamW, Cosine, LossScale, Stairs
from explorer.training.pretrained import Pretrained, trainable
from explorer.training.ranks import Mpi, on_threads
from explorer.training.step import first_state, train_step
from explorer.training.training_loop import fit

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Cosine",
    "Epoch",
    "Fitted",
    "LossScale",
    "Mpi",
    "Pretrained",
    "Span",
    "Stairs",
    "Timeline",
    "binary_cross_entropy",
    "cross_entropy",
    "dropout",
    "first_state",
    "fit",
    "on_threads",
    "random_bits",
    "squared_error",
    "train_step",
    "trainable",
]
