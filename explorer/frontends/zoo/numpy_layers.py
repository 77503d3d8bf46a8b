"""The vocabulary in plain NumPy: a value is an array. It is what a compiled model is held against,
and knows nothing of the compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.errors import BadOption
from explorer.frontends.zoo.layers import Dims, Layers
from explorer.frontends.zoo.numpy_operators import OPERATORS
from explorer.frontends.zoo.weights import Weight


class NumpyLayers(Layers[np.ndarray]):
    """Computes as it is told; a weight is drawn where it is used, and forgotten."""

    def __init__(self, inputs: Mapping[str, np.ndarray], seed: int) -> None:
        super().__init__()
        self.inputs, self.seed = inputs, seed
        self.outputs: dict[str, np.ndarray] = {}

    def input(self, name: str, dims: Dims, below: int | None = None) -> np.ndarray:
        dtype = "float32" if below is None else "int64"
        array = self.inputs.get(name)
        if array is None or str(array.dtype) != dtype or not _fits(array.shape, dims):
            wanted = f"{dtype}{list(dims)}"
            found = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise BadOption(
                f"the input {name!r} is {wanted}; found {found}",
                where=name,
                expected=wanted,
                found=found,
            )
        return array

    def output(self, name: str, value: np.ndarray, dims: Dims) -> None:
        if not _fits(value.shape, dims):
            raise ValueError(f"{name} is {list(value.shape)}, and was to be {list(dims)}")
        self.outputs[name] = value

    def constant(self, array: np.ndarray) -> np.ndarray:
        return array

    def parameter(self, weight: Weight) -> np.ndarray:
        return weight.drawn(self.seed)

    def apply(
        self, op: str, *args: np.ndarray | None, results: int = 1, **attributes: Any
    ) -> tuple[np.ndarray, ...]:
        found = OPERATORS[op](*args, **attributes)
        return found if isinstance(found, tuple) else (found,)


def _fits(shape: tuple[int, ...], dims: Dims) -> bool:
    return len(shape) == len(dims) and all(
        isinstance(d, str) or n == d for n, d in zip(shape, dims)
    )
