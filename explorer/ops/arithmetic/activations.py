"""Activations of recurrent operators, for kernels and for NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.ir.scalar_functions import SCALAR_FUNCTIONS
from explorer.ir.types import DType
from explorer.ops.arithmetic.elementwise import call

F = Callable[..., Any]  # a scalar function by name: of expressions, or of arrays


def of_expressions(dtype: DType) -> F:
    """Return scalar functions of kernel expressions; numbers are of `dtype`."""
    return lambda op, *args: call(op, *args, dtype=dtype)


def of_arrays(dtype: DType) -> F:
    """Return the same functions of arrays."""
    return lambda op, *args: SCALAR_FUNCTIONS[op].numpy(
        *(np.asarray(a, dtype) if isinstance(a, (int, float)) else a for a in args)
    )


@dataclass(frozen=True, slots=True)
class Activation:
    """A function by ONNX's name, with its parameters."""

    name: str
    alpha: float
    beta: float

    def __call__(self, f: F, x: Any) -> Any:
        """Apply the function to x."""
        a, b = self.alpha, self.beta
        match self.name:
            case "relu":
                return f("max", x, 0)
            case "tanh" | "sigmoid":
                return f(self.name, x)
            case "affine":
                return f("add", f("mul", x, a), b)
            case "leakyrelu":
                return f("where", f("le", x, 0), f("mul", x, a), x)
            case "thresholdedrelu":
                return f("where", f("gt", x, a), x, 0.0)
            case "scaledtanh":
                return f("mul", f("tanh", f("mul", x, b)), a)
            case "hardsigmoid":
                return f("max", f("min", f("add", f("mul", x, a), b), 1.0), 0.0)
            case "elu":
                return f("where", f("le", x, 0), f("mul", f("sub", f("exp", x), 1.0), a), x)
            case "softsign":
                return f("div", x, f("add", f("abs", x), 1.0))
            case _:
                small = f("log", f("add", f("exp", f("neg", f("abs", x))), 1.0))
                return f("add", f("max", x, 0.0), small)


DEFAULTS: Mapping[str, tuple[float, float]] = {
    "relu": (0.0, 0.0),
    "tanh": (0.0, 0.0),
    "sigmoid": (0.0, 0.0),
    "softsign": (0.0, 0.0),
    "softplus": (0.0, 0.0),
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01, 0.0),
    "thresholdedrelu": (1.0, 0.0),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, 0.0),
}
_ALPHA = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
_BETA = {"affine", "scaledtanh", "hardsigmoid"}


def activations(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> tuple[Activation, ...]:
    """Return the functions; those with a parameter take the next one of the list.

    Raises KeyError for an unknown name.
    """
    alphas, betas, result = list(alphas), list(betas), []
    for name in names:
        plain = name.lower()
        alpha, beta = DEFAULTS[plain]
        if plain in _ALPHA and alphas:
            alpha = alphas.pop(0)
        if plain in _BETA and betas:
            beta = betas.pop(0)
        result.append(Activation(plain, float(alpha), float(beta)))
    return tuple(result)
