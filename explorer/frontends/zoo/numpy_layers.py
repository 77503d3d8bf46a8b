"""The layers in plain NumPy, the independent reference of compiled models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.errors import BadOption
from explorer.frontends.zoo.layers import Dims, Layers
from explorer.frontends.zoo.numpy_operators import OPERATORS
from explorer.frontends.zoo.weights import Weight


class NumpyLayers(Layers[np.ndarray]):
    """Backend that computes; each weight is drawn where it is used, and not stored."""

    def __init__(self, inputs: Mapping[str, np.ndarray], seed: int) -> None:
        """Compute on `inputs`, with the weights of a seed."""
        super().__init__()
        self.inputs, self.seed = inputs, seed
        self.outputs: dict[str, np.ndarray] = {}

    def input(self, name: str, dims: Dims, below: int | None = None) -> np.ndarray:
        """Return the input; raise BadOption if it is missing or does not fit."""
        dtype = "float32" if below is None else "int64"
        array = self.inputs.get(name)
        if array is None or str(array.dtype) != dtype or not _fits(array.shape, dims):
            expected = f"{dtype}{list(dims)}"
            actual = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise BadOption(
                f"the input {name!r} is {expected}; found {actual}",
                where=name,
                expected=expected,
                actual=actual,
            )
        return array

    def output(self, name: str, value: np.ndarray, dims: Dims) -> None:
        """Store an output."""
        if not _fits(value.shape, dims):
            raise ValueError(f"{name} is {list(value.shape)}, expected {list(dims)}")
        self.outputs[name] = value

    def constant(self, array: np.ndarray) -> np.ndarray:
        """Return the array."""
        return array

    def parameter(self, weight: Weight) -> np.ndarray:
        """Draw the weight."""
        return weight.drawn(self.seed)

    def apply(
        self, op: str, *args: np.ndarray | None, results: int = 1, **attributes: Any
    ) -> tuple[np.ndarray, ...]:
        """Compute an operator."""
        outputs = OPERATORS[op](*args, **attributes)
        return outputs if isinstance(outputs, tuple) else (outputs,)


def _fits(shape: tuple[int, ...], dims: Dims) -> bool:
    return len(shape) == len(dims) and all(
        isinstance(d, str) or n == d for n, d in zip(shape, dims)
    )
