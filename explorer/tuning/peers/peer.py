"""A runtime with a loaded model, and the ONNX file that it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from explorer.frontends import zoo
from explorer.frontends.model import Model
from explorer.tuning.peers.model_forms import seed_of

Inputs = Mapping[str, np.ndarray]
Outputs = Mapping[str, np.ndarray]


class Skipped(Exception):
    """A runtime cannot take part; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A runtime with a loaded model: `run` returns outputs by name, `close` restores settings."""

    name: str
    version: str
    run: Callable[[], Outputs]
    close: Callable[[], object] = lambda: None


def onnx_source(model: Model) -> str | bytes:
    """Return the model's file, or the bytes of a zoo model.

    Raises:
        Skipped: the model comes from Python.
    """
    if not model.path.startswith(zoo.PREFIX):
        if not Path(model.path).is_file():
            raise Skipped("the model was not read from an ONNX file")
        return model.path
    proto: bytes = zoo.proto(model.path, seed_of(model)).SerializeToString()
    return proto


def warm(peer: Peer) -> Peer:
    """Run a peer once, so that no turn pays for its first call."""
    peer.run()
    return peer
