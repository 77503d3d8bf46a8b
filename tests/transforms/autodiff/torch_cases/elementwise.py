"""Functions of each element, at the points too where their derivatives jump."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer.np as enp
from explorer.ops.elementwise import CUBIC, INNER, SIXTH
from tests.transforms.autodiff.torch_cases.case import Case, case, op, positive, some, torch

F = torch.nn.functional
EDGES = np.array([-30.0, -3, -1, -0.5, -1e-3, -1e-7, 0, 1e-7, 1e-3, 0.5, 1, 3, 30])
FAR = np.array([-800.0, -200, -1, 0, 0.5, 200, 800])  # where exponentials end
TIES = np.array([-1.0, 0, 0, 0.5, 2, -3])
OTHERS = np.array([1.0, 0, -1, 0.5, 3, -3])
BASES = np.array([0.0, 0, 0, 0, 2, 2, 0.5, -2, -2, -0.5, 1, 1])
POWERS = np.array([0.0, 0.5, 1, 3, 0, -1, 2.5, 3, 2, 0, 0, -2])
ALPHA, GAMMA = 1.67326319217681884765625, 1.05070102214813232421875  # ONNX's, of float32


def gelu_by_tanh(x: Any) -> Any:
    """With ONNX's numbers, which are those of float32."""
    return 0.5 * x * (1 + torch.tanh(INNER * (x + CUBIC * x**3)))


def of_one(ours: Any, theirs: Any, x: Any = EDGES, why: str = "") -> Case:
    return case(ours, theirs, np.asarray(x), why=why)


ANYWHERE: dict[str, Any] = {
    "abs": torch.abs,
    "negative": torch.neg,
    "square": torch.square,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "tanh": torch.tanh,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "arctan": torch.arctan,
    "arcsinh": torch.arcsinh,
    "erf": torch.erf,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "rint": torch.round,
    "trunc": torch.trunc,
    "sign": torch.sign,
    "relu": F.relu,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "softplus": F.softplus,
    "gelu": F.gelu,
    "reciprocal": torch.reciprocal,
    "positive": torch.positive,
}
INSIDE = {
    "sqrt": [0, 1e-7, 0.5, 4, 1e6],
    "log": [0, 1e-7, 0.5, 1, 4, 1e6],
    "log2": [0, 1e-7, 0.5, 1, 4],
    "log10": [0, 1e-7, 0.5, 1, 4],
    "log1p": [-1, -0.5, -1e-3, -1e-7, 0, 1e-7, 1e-3, 0.5, 30],
    "arcsin": [-1, -0.5, 0, 0.5, 1],
    "arccos": [-1, -0.5, 0, 0.5, 1],
    "arccosh": [1, 1.5, 4, 100],
    "arctanh": [-1, -0.5, 0, 0.5, 1],
}
ACTIVATIONS: dict[str, tuple[Any, Any]] = {
    "LeakyRelu": (op("LeakyRelu", alpha=0.125), lambda x: F.leaky_relu(x, 0.125)),
    "LeakyRelu, of slope -2": (op("LeakyRelu", alpha=-2.0), lambda x: F.leaky_relu(x, -2.0)),
    "Elu": (op("Elu"), F.elu),
    "Elu, alpha": (op("Elu", alpha=0.5), lambda x: F.elu(x, 0.5)),
    "Selu": (op("Selu"), lambda x: GAMMA * F.elu(x, ALPHA)),
    "Celu": (op("Celu", alpha=0.5), lambda x: F.celu(x, 0.5)),
    "HardSigmoid": (op("HardSigmoid", alpha=0.5), lambda x: F.hardtanh(0.5 * x + 0.5, 0, 1)),
    "HardSwish": (op("HardSwish"), lambda x: x * F.hardtanh(x * SIXTH + 0.5, 0, 1)),
    "Softplus": (op("Softplus"), F.softplus),
    "Softsign": (op("Softsign"), F.softsign),
    "Mish": (op("Mish"), F.mish),
    "Swish, alpha": (op("Swish", alpha=0.5), lambda x: x * torch.sigmoid(0.5 * x)),
    "ThresholdedRelu": (op("ThresholdedRelu", alpha=0.5), lambda x: F.threshold(x, 0.5, 0.0)),
    "Shrink, hard": (op("Shrink", lambd=0.5), lambda x: F.hardshrink(x, 0.5)),
    "Shrink, soft": (op("Shrink", lambd=0.5, bias=0.5), lambda x: F.softshrink(x, 0.5)),
    "Gelu, by tanh": (op("Gelu", approximate="tanh"), gelu_by_tanh),
    "Relu": (op("Relu"), F.relu),
    "Reciprocal": (op("Reciprocal"), torch.reciprocal),
    "Identity": (op("Identity"), lambda x: x * 1),
    "Dropout": (op("Dropout"), lambda x: x * 1),
    "a relu by a maximum": (lambda x: enp.maximum(x, 0.0), lambda x: x.maximum(x.new_zeros(()))),
    "rounded to decimals": (lambda x: enp.round(x, 1), lambda x: torch.round(x, decimals=1)),
    "clip": (lambda x: enp.clip(x, -1.0, 0.5), lambda x: x.clamp(-1, 0.5)),
    "clip, below": (lambda x: enp.clip(x, min=0.5), lambda x: x.clamp(min=0.5)),
    "clip, above": (lambda x: enp.clip(x, max=-1.0), lambda x: x.clamp(max=-1)),
    "clip, crossed": (lambda x: enp.clip(x, 1.0, -1.0), lambda x: x.clamp(1, -1)),
    "Clip": (
        lambda x: op("Clip")(x, np.asarray(0, x.dtype), np.asarray(3, x.dtype)),
        lambda x: x.clamp(0, 3),
    ),
    "a power of 2": (lambda x: x**2, lambda x: x**2),
    "a power of 3": (lambda x: x**3, lambda x: x**3),
    "a power of 0": (lambda x: x**0.0, lambda x: x**0.0),
    "a power of 1": (lambda x: x**1.0, lambda x: x**1.0),
    "a power of -1": (lambda x: x**-1.0, lambda x: x**-1.0),
    "a power of -2": (lambda x: x**-2.0, lambda x: x**-2.0),
    "a power of 4": (lambda x: x**4.0, lambda x: x**4.0),
    "3 to the power": (lambda x: 3.0 ** enp.clip(x, -3.0, 3.0), lambda x: 3.0 ** x.clamp(-3, 3)),
    "0 to a negative power": (lambda x: 0.0 ** (-enp.abs(x)), lambda x: 0.0 ** (-x.abs())),
    "0 to the power": (lambda x: 0.0 ** enp.abs(x), lambda x: 0.0 ** x.abs()),
    "a float and back": (
        lambda x: enp.astype(enp.astype(x, "float32") * 2, x.dtype),
        lambda x: (x.to(torch.float32) * 2).to(x.dtype),
    ),
    "where both sides are the same": (
        lambda x: enp.where(x > 0, x, x * 2),
        lambda x: torch.where(x > 0, x, x * 2),
    ),
    "a side that is not taken": (
        lambda x: enp.where(x > 0, enp.sqrt(enp.where(x > 0, x, 1.0)), 0.0),
        lambda x: torch.where(x > 0, torch.sqrt(torch.where(x > 0, x, 1.0)), 0.0),
    ),
}
HALVES: dict[str, tuple[Any, Any]] = {
    "a root": (lambda x: x**0.5, lambda x: x**0.5),
    "one over a root": (lambda x: x**-0.5, lambda x: x**-0.5),
    "a power of 1.7": (lambda x: x**1.7, lambda x: x**1.7),
}
TIE = (
    "arrays as limits are arguments of a maximum and a minimum, of which ties share the derivative"
)
WHY = {"clip, by arrays": TIE, "clip, broadcast": TIE}
PAIRS: dict[str, tuple[Any, Any, Any, Any]] = {
    "add": (enp.add, torch.add, some(3, 4), some(4)),
    "subtract": (enp.subtract, torch.sub, some(3, 1), some(1, 4)),
    "multiply": (enp.multiply, torch.mul, some(2, 1, 4), some(3, 1)),
    "divide": (enp.divide, torch.div, some(3, 4), positive(3, 1)),
    "a scalar": (enp.multiply, torch.mul, some(3, 4), some()),
    "with itself": (lambda a, b: a * a + a / b, lambda a, b: a * a + a / b, some(3), positive(3)),
    "maximum": (enp.maximum, torch.maximum, TIES, OTHERS),
    "minimum": (enp.minimum, torch.minimum, TIES, OTHERS),
    "maximum, broadcast": (enp.maximum, torch.maximum, some(3, 4), some(4)),
    "power": (enp.power, torch.pow, BASES, POWERS),
    "power, broadcast": (enp.power, torch.pow, positive(3, 4), some(3, 1)),
    "mod": (enp.mod, torch.remainder, some(4, 3), np.array([0.7, -0.7, 0.3])),
    "fmod": (enp.fmod, torch.fmod, TIES, np.array([0.7, -0.7, 0.3, 0.2, -0.3, 0.9])),
    "floor_divide": (
        enp.floor_divide,
        lambda a, b: torch.div(a, b, rounding_mode="floor"),
        some(5),
        some(5, seed=1),
    ),
    "hypot": (enp.hypot, torch.hypot, np.array([3.0, -1, 0, 1, 2]), np.array([4.0, 1, 2, 0, 2])),
    "PRelu": (op("PRelu"), lambda a, b: torch.where(a > 0, a, a * b), EDGES, some(1)),
    "clip, by arrays": (
        lambda a, b: enp.clip(a, b, b + 1.0),
        lambda a, b: torch.clamp(a, b, b + 1.0),
        np.array([-1.0, 0, 0.5, 1, 1.5]),
        np.array([0.0, 0, 0, 0, 0.75]),
    ),
    "clip, by numbers": (
        lambda a, b: enp.clip(a, b, b + 1.0),
        lambda a, b: torch.clamp(a, b, b + 1.0),
        np.array([[-1.0, 0, 0.5], [1, 1.5, 2]]),
        np.array(0.0),
    ),
    "clip, broadcast": (
        lambda a, b: enp.clip(a, b, 1.0),
        lambda a, b: torch.clamp(torch.clamp(a, b), max=a.new_ones(())),
        np.array([-1.0, 0, 0.5, 1]),
        np.array([[0.0], [0.5]]),
    ),
    "where": (
        lambda a, b: enp.where(a > b, a, b),
        lambda a, b: torch.where(a > b, a, b),
        some(3, 4),
        some(3, 1),
    ),
    "Sum of three": (
        lambda a, b: op("Sum")(a, b, a * b),
        lambda a, b: a + b + a * b,
        some(3, 4),
        some(4),
    ),
    "Mean of three": (
        lambda a, b: op("Mean")(a, b, a * b),
        lambda a, b: (a + b + a * b) / 3,
        some(3, 4),
        some(4),
    ),
    "Max of three": (
        lambda a, b: op("Max")(a, b, a * b),
        lambda a, b: a.maximum(b).maximum(a * b),
        some(3, 4),
        some(4),
    ),
    "logaddexp, written out": (
        lambda a, b: enp.maximum(a, b) + enp.log1p(enp.exp(-enp.abs(a - b))),
        torch.logaddexp,
        some(4),
        some(4, seed=1),
    ),
}
CASES: dict[str, Case] = {
    **{name: of_one(getattr(enp, name), theirs) for name, theirs in ANYWHERE.items()},
    **{f"{n}, far": of_one(getattr(enp, n), t, FAR) for n, t in ANYWHERE.items() if n != "exp2"},
    **{f"{n}, far": of_one(*f, FAR) for n, f in ACTIVATIONS.items() if n[:2] != "a "},
    **{name: of_one(getattr(enp, name), getattr(torch, name), x) for name, x in INSIDE.items()},
    **{name: of_one(ours, theirs) for name, (ours, theirs) in ACTIVATIONS.items()},
    **{name: of_one(o, t, [0, 1e-3, 0.5, 1, 4]) for name, (o, t) in HALVES.items()},
    **{name: case(*pair, why=WHY.get(name, "")) for name, pair in PAIRS.items()},
    "a power of 0.75": of_one(lambda x: x**0.75, lambda x: x**0.75, [0.0, 1e-3, 0.5, 1, 4]),
}
