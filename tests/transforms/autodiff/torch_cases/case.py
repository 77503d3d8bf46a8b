"""One function written twice, and how its derivatives are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.frontends.python.tracing.emit import emit_several, traced
from explorer.frontends.python.tracing.frames import attributed_to_call
from explorer.ir.types import Tensor
from explorer.ops import RECORDS

torch: Any = pytest.importorskip("torch")

SHARES = {"float32": 1e-5, "float64": 1e-10}  # of the largest element that is a number
Run = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Case:
    """`ours` and `theirs` give the same of `args`, one array or several; arrays of floats are given
    in each dtype. `why` PyTorch's derivative is another one, where it is: then it has to be.
    """

    ours: Run
    theirs: Run
    args: tuple[np.ndarray, ...]
    why: str = ""


def case(ours: Run, theirs: Run, *args: Any, why: str = "") -> Case:
    return Case(ours, theirs, tuple(np.asarray(a) for a in args), why)


def op(name: str, *, results: int = 1, **attrs: Any) -> Run:
    """An ONNX operator; of several results all. Arrays that it reads when it is compiled become
    attributes, as the compiler makes them.
    """
    by_value = RECORDS[name].by_value

    def run(*args: Any) -> Any:
        known = {
            by_value[n]: a.item() if a.ndim == 0 else tuple(a.tolist())
            for n, a in enumerate(args)
            if n in by_value and isinstance(a, np.ndarray)
        }
        rest = [None if n in by_value and by_value[n] in known else a for n, a in enumerate(args)]
        while rest[-1] is None:
            rest.pop()
        with attributed_to_call(name):
            given = (None if a is None else traced(a) for a in rest)
            found = emit_several(name, results, *given, **attrs, **known)
        return found[0] if results == 1 else tuple(found)

    return run


def some(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    return np.abs(some(*shape, seed=seed)) + 0.5


def as_dtype(case: Case, dtype: str) -> list[np.ndarray]:
    return [a.astype(dtype) if a.dtype.kind == "f" else a for a in case.args]


@dataclass(frozen=True, slots=True)
class Derivatives:
    """What a function gives and what is handed back to its arguments, of seeds by number."""

    values: list[np.ndarray]
    gradients: list[np.ndarray]
    seeds: tuple[np.ndarray, ...]


def by_torch(case: Case, args: Sequence[np.ndarray]) -> Derivatives:
    leaves = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in args]
    found = case.theirs(*leaves)
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    seeds = tuple(
        some(*r.shape, seed=n + 1).astype(str(r.dtype).removeprefix("torch."))
        for n, r in enumerate(results)
    )
    wrt = [leaf for leaf in leaves if leaf.requires_grad]
    if any(r.requires_grad for r in results):
        back = torch.autograd.grad(
            results,
            wrt,
            [torch.tensor(s) for s in seeds],
            allow_unused=True,
            materialize_grads=True,
        )
    else:
        back = [torch.zeros_like(leaf) for leaf in wrt]
    values = [r.detach().numpy() for r in results]
    return Derivatives(values, [g.numpy() for g in back], seeds)


def product(case: Case, args: Sequence[np.ndarray]) -> Run:
    """A function of seeds and arguments: results, then what is handed back."""
    wrt = tuple(n for n, a in enumerate(args) if a.dtype.kind == "f")

    def run(seeds: Any, given: Any) -> Any:
        one = len(seeds) == 1
        found, back = explorer.vjp(case.ours, argnums=wrt)(seeds[0] if one else seeds, *given)
        return (*((found,) if one else found), *back)

    return run


def by_interpreter(case: Case, args: Sequence[np.ndarray], wanted: Derivatives) -> list[np.ndarray]:
    return [np.asarray(a) for a in product(case, args)(wanted.seeds, tuple(args))]


def compiled(case: Case, args: Sequence[np.ndarray], wanted: Derivatives) -> list[np.ndarray]:
    """The same by code; no step of the compiler changes it."""

    def declared(arrays: Sequence[np.ndarray]) -> tuple[Tensor, ...]:
        return tuple(Tensor(a.shape, a.dtype.name) for a in arrays)

    whole = explorer.trace(product(case, args))(seeds=declared(wanted.seeds), given=declared(args))
    c = explorer.compile(whole, check=True)
    broken = [(s.name, s.checked) for s in c.snapshots if isinstance(s.checked, str)]
    assert not broken
    return list(c.run(*wanted.seeds, *args).values())


def agree(found: Sequence[np.ndarray], wanted: Derivatives, dtype: str) -> None:
    right = [*wanted.values, *wanted.gradients]
    assert len(found) == len(right)
    for n, (one, other) in enumerate(zip(found, right, strict=True)):
        what = "result" if n < len(wanted.values) else f"gradient {n - len(wanted.values)}"
        assert one.shape == other.shape and one.dtype == other.dtype, what
        largest = float(np.abs(other[np.isfinite(other)]).max(initial=0.0))
        np.testing.assert_allclose(
            one, other, rtol=0, atol=SHARES[dtype] * max(largest, 1e-3), err_msg=what
        )
