"""Kinds of lines: how operands are drawn, and the value in NumPy's words.

A kind draws numbers for values that are known, so every shape is, too; it draws None where no value
suits it. What it drew is all that the line needs to run with `enp`, or with PyTorch's `Torch`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.strategies.choices import Choices

Values = Sequence[np.ndarray]
Drawn = tuple[tuple[int, ...], tuple[Any, ...]] | None  # numbers of operands; what else it takes


@dataclass(frozen=True, slots=True)
class Kind:
    """`run(np_, *operands, *more)` of what `draw` gives."""

    draw: Callable[[Choices, Values], Drawn]
    run: Callable[..., Any]


def one(c: Choices, values: Values, rank: int = 0, filled: bool = False) -> int | None:
    """The number of a value of at least so many axes; of a late one rather than an early one."""
    fits = [n for n, v in enumerate(values) if v.ndim >= rank and (v.size or not filled)]
    return max(c.one(fits), c.one(fits)) if fits else None


def unary(run: Callable[..., Any]) -> Kind:
    def draw(c: Choices, values: Values) -> Drawn:
        return (int(one(c, values) or 0),), ()

    return Kind(draw, run)


def by_axis(run: Callable[..., Any], filled: bool = True) -> Kind:
    def draw(c: Choices, values: Values) -> Drawn:
        n = one(c, values, 1, filled)
        return None if n is None else ((n,), (c.number(0, values[n].ndim - 1),))

    return Kind(draw, run)


def binary(run: Callable[..., Any]) -> Kind:
    """Of two values that broadcast, whatever their ranks."""

    def draw(c: Choices, values: Values) -> Drawn:
        pairs = [
            (n, m)
            for n, a in enumerate(values)
            for m, b in enumerate(values)
            if broadcast(a.shape, b.shape) and (a.shape != b.shape or c.rng.random() < 0.5)
        ]
        return (c.one(pairs), ()) if pairs else None

    return Kind(draw, run)


def broadcast(*shapes: tuple[int, ...]) -> bool:
    try:
        return bool(np.prod(np.broadcast_shapes(*shapes)) < 200)
    except ValueError:
        return False


def reduced(c: Choices, values: Values) -> Drawn:
    n = one(c, values, 0, filled=True)
    if n is None:
        return None
    axes = tuple(k for k in range(values[n].ndim) if c.chance(0.6))
    return (n,), (axes, bool(c.number(0, 1)))


def reduction(name: str) -> Kind:
    def run(np_: Any, a: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
        return getattr(np_, name)(a, axis=axes, keepdims=keepdims)

    return Kind(reduced, run)


def sliced(c: Choices, values: Values) -> Drawn:
    """Starts, ends and steps of both signs, ends out of reach, empty ones, numbers, new axes."""
    n = one(c, values, 1)
    if n is None:
        return None
    key: list[Any] = []
    shape = values[n].shape
    for _ in range(c.number(1, len(shape))):
        size = shape[len(key) - key.count(None)]
        kind = c.weighted((0.2, 0.1, 0.7))
        if kind == 0 and size:
            key.append(c.number(-size, size - 1))
        elif kind < 2:
            key.append(None)
        else:
            low, high = (c.number(-size - 1, size + 1) for _ in range(2))
            ends = [None if c.chance(0.4) else end for end in (low, high)]
            key.append(slice(*ends, c.one([1, 1, 2, 3, -1, -2])))
    return (n,), (tuple(key),)


def gathered(c: Choices, values: Values) -> Drawn:
    """Rows by number, some of them often, some from the end, by an array of one or two axes."""
    n = one(c, values, 1, filled=True)
    if n is None:
        return None
    axis = c.number(0, values[n].ndim - 1)
    size = values[n].shape[axis]
    shape = c.one([(3,), (4,), (2, 2), ()])
    return (n,), (np.asarray(c.rng.integers(-size, size, shape)), axis)


def moved(c: Choices, values: Values) -> Drawn:
    n = one(c, values, 1)
    return None if n is None else ((n,), (tuple(c.permutation(values[n].ndim)),))


def reshaped(c: Choices, values: Values) -> Drawn:
    n = one(c, values, 0, filled=True)
    if n is None:
        return None
    rest, shape = values[n].size, []
    while rest > 1 and len(shape) < 2:
        size = c.one([k for k in range(1, rest + 1) if rest % k == 0])
        shape.append(size)
        rest //= size
    return (n,), ((*shape, rest),)


def widened(c: Choices, values: Values) -> Drawn:
    n = one(c, values)
    if n is None or values[n].size > 40 or values[n].ndim > 2:
        return None
    shape = [k if k != 1 else c.number(1, 3) for k in values[n].shape]
    return (n,), ((c.number(1, 3), *shape),)


def joined(c: Choices, values: Values) -> Drawn:
    """Two values that differ along one axis at most."""
    pairs = [
        ((n, m), (axis,))
        for n, a in enumerate(values)
        for m, b in enumerate(values)
        if a.ndim == b.ndim
        for axis in range(a.ndim)
        if np.delete(a.shape, axis).tolist() == np.delete(b.shape, axis).tolist()
        and a.size + b.size < 200
    ]
    return c.one(pairs) if pairs else None


def padded(c: Choices, values: Values) -> Drawn:
    n = one(c, values, 1)
    if n is None or values[n].size > 60:
        return None
    return (n,), (tuple((c.number(0, 2), c.number(0, 2)) for _ in values[n].shape),)


def multiplied(c: Choices, values: Values) -> Drawn:
    """By a matrix that fits."""
    n = one(c, values, 1)
    if n is None:
        return None
    shape = values[n].shape[-1], c.number(1, 3)
    return (n,), (c.rng.normal(size=shape) / 2,)


def paired(c: Choices, values: Values) -> Drawn:
    """Two values of the same last axis: rows of one by rows of the other."""
    pairs = [
        (n, m)
        for n, a in enumerate(values)
        for m, b in enumerate(values)
        if a.ndim == b.ndim == 2 and a.shape[1] == b.shape[1] and len(a) * len(b) < 100
    ]
    return (c.one(pairs), ()) if pairs else None


def masked(c: Choices, values: Values) -> Drawn:
    n = one(c, values)
    if n is None:
        return None
    return (n,), (c.rng.random(values[n].shape) < 0.6,)


def shifted(c: Choices, values: Values) -> Drawn:
    n = one(c, values, 1, filled=True)
    if n is None:
        return None
    return (n,), (c.number(-3, 3), c.number(0, values[n].ndim - 1))


def cornered(c: Choices, values: Values) -> Drawn:
    n = one(c, values, 2)
    return None if n is None else ((n,), (c.number(-1, 1),))


KINDS: dict[str, Kind] = {
    "tanh": unary(lambda np_, a: np_.tanh(a)),
    "sin": unary(lambda np_, a: np_.sin(a)),
    "sigmoid": unary(lambda np_, a: np_.sigmoid(a)),
    "relu": unary(lambda np_, a: np_.relu(a)),
    "abs": unary(lambda np_, a: np_.abs(a)),
    "bell": unary(lambda np_, a: np_.exp(-a * a)),
    "logarithm": unary(lambda np_, a: np_.log1p(a * a)),
    "length": unary(lambda np_, a: np_.sqrt(a * a + 1.0)),
    "erf": unary(lambda np_, a: np_.erf(a)),
    "softplus": unary(lambda np_, a: np_.softplus(a)),
    "add": binary(lambda np_, a, b: a + b),
    "subtract": binary(lambda np_, a, b: a - b),
    "multiply": binary(lambda np_, a, b: a * b),
    "divide": binary(lambda np_, a, b: a / (b * b + 1.0)),
    "maximum": binary(lambda np_, a, b: np_.maximum(a, b)),
    "minimum": binary(lambda np_, a, b: np_.minimum(a, b)),
    "chosen": binary(lambda np_, a, b: np_.where(a > b, a, b * 0.5)),
    "sum": reduction("sum"),
    "mean": reduction("mean"),
    "max": reduction("max"),
    "min": reduction("min"),
    "prod": reduction("prod"),
    "var": reduction("var"),
    "logsumexp": reduction("logsumexp"),
    "softmax": by_axis(lambda np_, a, axis: np_.softmax(a, axis=axis)),
    "log_softmax": by_axis(lambda np_, a, axis: np_.log_softmax(a, axis=axis)),
    "cumsum": by_axis(lambda np_, a, axis: np_.cumsum(a, axis=axis), filled=False),
    "sort": by_axis(lambda np_, a, axis: np_.sort(a, axis=axis)),
    "ordered": by_axis(
        lambda np_, a, axis: np_.take_along_axis(a, np_.argsort(-a, axis=axis), axis=axis)
    ),
    "flip": by_axis(lambda np_, a, axis: np_.flip(a, axis=axis), filled=False),
    "twice": by_axis(lambda np_, a, axis: np_.repeat(a, 2, axis=axis)),
    "slice": Kind(sliced, lambda np_, a, key: np_.getitem(a, key)),
    "take": Kind(gathered, lambda np_, a, rows, axis: np_.take(a, rows, axis=axis)),
    "transpose": Kind(moved, lambda np_, a, axes: np_.transpose(a, axes)),
    "reshape": Kind(reshaped, lambda np_, a, shape: np_.reshape(a, shape)),
    "broadcast_to": Kind(widened, lambda np_, a, shape: np_.broadcast_to(a, shape)),
    "concatenate": Kind(joined, lambda np_, a, b, axis: np_.concatenate([a, b], axis=axis)),
    "pad": Kind(padded, lambda np_, a, widths: np_.pad(a, widths)),
    "roll": Kind(shifted, lambda np_, a, by, axis: np_.roll(a, by, axis=axis)),
    "matmul": Kind(multiplied, lambda np_, a, w: np_.matmul(a, np_.asarray(w))),
    "einsum": Kind(paired, lambda np_, a, b: np_.einsum("ik,jk->ij", a, b)),
    "where": Kind(masked, lambda np_, a, mask: np_.where(np_.asarray(mask), a, 0.25)),
    "tril": Kind(cornered, lambda np_, a, k: np_.tril(a, k)),
    "triu": Kind(cornered, lambda np_, a, k: np_.triu(a, k)),
}
