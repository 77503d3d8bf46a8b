"""Gradients against central differences in float64, and compiled ones against interpreted ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import explorer
from explorer.ir.types import Tensor

STEP, SHARE = 1e-6, 1e-5  # of the largest derivative
Run = Callable[..., Any]


def differences(
    loss: Run, args: Sequence[np.ndarray], which: int, size: float = STEP
) -> np.ndarray:
    """The derivative of a scalar by each element of one argument."""
    found = np.zeros_like(args[which])
    for place in np.ndindex(*found.shape):
        ends = []
        for step in (size, -size):
            moved = [a.copy() for a in args]
            moved[which][place] += step
            ends.append(float(loss(*moved)))
        found[place] = (ends[0] - ends[1]) / (2 * size)
    return found


def total(f: Run) -> Run:
    """A scalar of all results, in which no two elements weigh the same."""

    def loss(*args: Any) -> Any:
        y = f(*args)
        return (y * y * 0.5 + y).sum()

    return loss


def _is_near(found: np.ndarray, wanted: np.ndarray) -> bool:
    largest = float(np.abs(wanted).max(initial=0.0))
    return np.allclose(found, wanted, rtol=0, atol=SHARE * max(largest, 1e-3))


def _estimates(loss: Run, args: Sequence[np.ndarray], which: int) -> Iterator[np.ndarray]:
    """Of a small step; without the error of its square, for a steep one; and so of a larger step,
    for a flat one beside a total so large that its rounding is all that a small step shows.
    """
    plain = differences(loss, args, which)
    yield plain
    yield (4 * plain - differences(loss, args, which, 2 * STEP)) / 3
    near, far = (differences(loss, args, which, size * STEP) for size in (100, 200))
    yield (4 * near - far) / 3


def check(f: Run, *args: Any, compiled: bool = True) -> None:
    """The gradients of what `f` gives, by all floats that it is given, are right; compiled too."""
    arrays = [np.asarray(a) for a in args]
    wrt = tuple(n for n, a in enumerate(arrays) if a.dtype.kind == "f")
    loss = total(f)
    value, found = explorer.value_and_grad(loss, argnums=wrt)(*arrays)
    np.testing.assert_allclose(value, loss(*arrays), rtol=1e-10)
    for n, gradient in zip(wrt, found, strict=True):
        assert gradient.shape == arrays[n].shape and gradient.dtype == arrays[n].dtype
        tried = []
        for wanted in _estimates(loss, arrays, n):
            if _is_near(gradient, wanted):
                break
            tried.append(wanted)
        else:
            raise AssertionError(f"{gradient} for {tried}")
    if compiled:
        check_compiled(loss, wrt, arrays, [value, *found])


def check_compiled(
    loss: Run, wrt: tuple[int, ...], arrays: Sequence[np.ndarray], wanted: Sequence[Any]
) -> None:
    """Code gives what the interpreter does, and no step changes it."""

    def whole(arrays: Any) -> Any:
        return explorer.value_and_grad(loss, argnums=wrt)(*arrays)

    declared = tuple(Tensor(a.shape, a.dtype.name) for a in arrays)
    c = explorer.compile(explorer.trace(whole)(arrays=declared), check=True)
    broken = [(s.name, s.checked) for s in c.snapshots if isinstance(s.checked, str)]
    assert not broken
    found = c.run(*arrays)
    for array, one in zip(found.values(), wanted, strict=True):
        largest = float(np.abs(one).max(initial=0.0))
        np.testing.assert_allclose(array, one, rtol=0, atol=1e-9 * max(largest, 1e-3))
