"""An exercise on weights of few bits (chapter 10b): bits per layer under an error budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from explorer.course.exercise import Check, Exercise, require
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.quantization.constant_products import constant_products
from explorer.quantization.quantize import quantize

CHOICES = (2, 4, 8)
BLOCK = 32


@dataclass(frozen=True, slots=True)
class Layer:
    """A matrix: by bits, the bytes that it takes and its squared error."""

    name: str
    bytes: Mapping[int, int]
    errors: Mapping[int, float]


def layers_of(model: Model) -> tuple[Layer, ...]:
    """Return the matrices of a model's products with their bytes and squared errors."""
    by_bits = {n: quantize(model, f"int{n}", BLOCK).quantization for n in CHOICES}
    squares = {
        p.weight: float(np.square(p.matrix(model.program.constants), dtype=np.float64).sum())
        for p in constant_products(model.program)
    }
    rows = {n: {x.weight: x for x in q.layers} for n, q in by_bits.items() if q is not None}
    return tuple(
        Layer(
            name,
            {n: rows[n][name].bytes_after for n in CHOICES},
            {n: rows[n][name].weight_error ** 2 * square for n in CHOICES},
        )
        for name, square in squares.items()
    )


def least_bytes(layers: Sequence[Layer], budget: float) -> int | None:
    """Return the fewest bytes within the budget; None if no choice is within it."""
    front = [(0, 0.0)]  # bytes and error of choices that no other one beats in both
    for layer in layers:
        sums = sorted(
            (size + layer.bytes[n], error + layer.errors[n])
            for size, error in front
            for n in layer.errors
        )
        front = []
        for size, error in sums:
            if not front or error < front[-1][1]:
                front.append((size, error))
    return min((size for size, error in front if error <= budget), default=None)


def _record_choice(answer: Any, rows: list[Any], budget: float) -> list[int] | None:
    bits = answer([Layer(*row) for row in rows], budget)
    return None if bits is None else list(bits)


def _check_choice(answer: Any, layers: Sequence[Layer], budget: float) -> None:
    rows: list[Any] = [[x.name, {**x.bytes}, {**x.errors}] for x in layers]
    got, fewest = answer.run(_record_choice, rows, budget), least_bytes(layers, budget)
    case = f"{len(layers)} layers under a budget of {budget:.4g}"
    if fewest is None:
        require(got is None, f"{case}: no choice is within it, and {got!r} is returned")
        return
    require(got is not None, f"{case}: None is returned, and {fewest:,} bytes are within it")
    chosen = got
    require(
        isinstance(chosen, list)
        and len(chosen) == len(layers)
        and all(type(n) is int and n in x.errors for n, x in zip(chosen, layers)),
        f"{case}: {chosen!r} is not one of the layer's choices of bits for each layer",
    )
    error = sum(x.errors[n] for n, x in zip(chosen, layers, strict=True))
    require(error <= budget, f"{case}: the error is {error:.4g}")
    size = sum(x.bytes[n] for n, x in zip(chosen, layers, strict=True))
    require(size == fewest, f"{case}: {size:,} bytes are taken, and {fewest:,} are enough")


def _layer(name: str, weights: int, errors: Sequence[float]) -> Layer:
    sizes = {n: weights * (n * BLOCK + 32) // (8 * BLOCK) for n in CHOICES}
    return Layer(name, sizes, dict(zip(CHOICES, errors, strict=True)))


def _check_by_hand(answer: Any, seed: int) -> None:
    layers = (
        _layer("query", 1024, (9.0, 1.0, 0.0)),
        _layer("up", 4096, (20.0, 2.0, 0.0)),
        _layer("down", 4096, (40.0, 3.0, 0.5)),
    )
    for budget in (100.0, 32.0, 12.0, 6.0, 5.9, 0.5, 0.4):
        _check_choice(answer, layers, budget)


def _random_layers(rng: Random, count: int) -> tuple[Layer, ...]:
    layers = []
    for n in range(count):
        weights, scale = 1024 * rng.choice((1, 1, 2, 4, 8)), rng.uniform(0.5, 20.0)
        errors = (scale * rng.uniform(0.6, 1.0), scale * rng.uniform(0.02, 0.1), scale * 1e-4)
        layers.append(_layer(f"layer {n}", weights, errors))
    return tuple(layers)


# Shares of the greatest error. None is 1: a sum of the same errors in another order can be larger
# by a rounding, and an answer that adds in that order would be refused.
SHARES = (0.0, 0.01, 0.1, 0.3, 0.7, 1.01)


def _check_random_layers(answer: Any, seed: int) -> None:
    rng = Random(seed)
    for _ in range(20):
        layers = _random_layers(rng, rng.randint(1, 14))
        worst = sum(layer.errors[2] for layer in layers)
        _check_choice(answer, layers, worst * rng.choice(SHARES))


def _check_model(answer: Any, seed: int) -> None:
    """Check the choice for the matrices of a model, with the errors that quantization measures."""
    layers = layers_of(load("zoo:tiny_llama"))
    for share in (0.02, 0.2, 0.6):
        worst = sum(layer.errors[2] for layer in layers)
        _check_choice(answer, layers, share * worst)


_HEAD = '''\
def choose_bits(layers, budget):
    """Return the bits of each layer: an error of at most `budget` in the fewest bytes."""
'''

BITS = Exercise(
    name="bits",
    chapter="10b_decode",
    title="Bits per layer under an error budget",
    goal="A layer has `.bytes` and `.errors`, both by bits: 2, 4 or 8. Write "
    "`choose_bits(layers, budget)`: it returns one number of bits for each layer, so that the sum "
    "of the errors is at most `budget`, and the sum of the bytes is the least possible. It returns "
    "None if no choice is within the budget. A model may have dozens of layers: to try every "
    "combination takes too long.",
    answer="choose_bits",
    stub=_HEAD + "    raise NotImplementedError\n",
    solution=_HEAD
    + """\
    front = [(0, 0.0, ())]
    for layer in layers:
        longer = sorted(
            (size + layer.bytes[n], error + layer.errors[n], (*bits, n))
            for size, error, bits in front
            for n in layer.errors
        )
        front = []
        for size, error, bits in longer:
            if not front or error < front[-1][1]:
                front.append((size, error, bits))
    return next((list(bits) for _, error, bits in front if error <= budget), None)
""",
    hints=(
        "Begin with 2 bits everywhere, and raise the layer that saves the most error for a byte: "
        "that is close, but the last raise may take more than is needed.",
        "Take the layers one after another. Of the choices so far, one that another beats in both "
        "bytes and error can be dropped.",
        "Keep a list of (bytes, error, bits), sorted by bytes. After each layer, go through it and "
        "drop an entry unless its error is less than that of all entries before it.",
    ),
    checks=(
        Check("three layers and seven budgets", 1, _check_by_hand),
        Check("random layers", 2, _check_random_layers),
        Check("the matrices of zoo:tiny_llama", 1, _check_model, True),
        Check("other layers", 2, lambda a, s: _check_random_layers(a, s + 1), True),
    ),
    exit_question="The error of the weights is a stand-in for the perplexity. For which layers is "
    "it a bad one?",
)
