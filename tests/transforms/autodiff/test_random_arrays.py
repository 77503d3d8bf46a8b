"""Random programs over arrays of every rank, with slices, gathers, broadcasts, branches and loops:
gradients against central differences and, where it is installed, against PyTorch; compiled too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings

import explorer
from explorer.transforms.autodiff.options import Options
from tests.examples import examples
from tests.strategies.arrays.kinds import KINDS
from tests.strategies.arrays.program import NESTED, Plain, Random, programs, run
from tests.strategies.choices import Seeded
from tests.transforms.autodiff import test_rematerialisation as rematerialisation
from tests.transforms.autodiff.finite import check, total

QUIET: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}
NEAR = 1e-9  # of the largest derivative


class Ours(Plain):
    """NumPy's names, and control flow that is recorded."""

    cond = staticmethod(explorer.cond)
    scan = staticmethod(explorer.scan)
    while_loop = staticmethod(explorer.while_loop)


def function(program: Random, np_: Any) -> Any:
    """Its last three values in one row."""

    def f(*args: Any) -> Any:
        last = run(np_, program.lines, args)[-3:]
        return np_.concatenate([v.reshape((-1,)) for v in last], axis=0)

    return f


def agrees_with_differences(program: Random, compiled: bool = False) -> None:
    check(function(program, Ours()), *program.args, compiled=compiled)


def agrees_with_torch(program: Random) -> None:
    torch = pytest.importorskip("torch")
    from tests.strategies.arrays.in_torch import Torch

    leaves = [torch.tensor(a, requires_grad=True) for a in program.args]
    loss = total(function(program, Torch()))(*leaves)
    wanted = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
    ours = total(function(program, Ours()))
    value, found = explorer.value_and_grad(ours, argnums=(0, 1))(*program.args)
    np.testing.assert_allclose(value, loss.detach().numpy(), rtol=1e-10)
    for one, other in zip(found, wanted, strict=True):
        largest = float(other.abs().max())
        np.testing.assert_allclose(one, other.numpy(), rtol=0, atol=NEAR * max(largest, 1e-3))


def agrees_when_computed_again(program: Random) -> None:

    def loss(args: Any) -> Any:
        return total(function(program, Ours()))(*args)

    args = (list(program.args),)
    one, other = (
        rematerialisation.compiled(loss, args, Options(share=share)) for share in (1.0, 0.0)
    )
    assert rematerialisation.agrees(one, other, args)


def test_programs_have_all_that_they_are_meant_to_have() -> None:
    """Of a hundred: every kind of line, loops in loops, arrays of no elements, of one, of ranks."""
    of_a_hundred = [programs.of(seed, 12) for seed in range(100)]
    kinds = {line.kind for p in of_a_hundred for line in p.lines}
    assert kinds == {*KINDS, *NESTED}
    inner = {i.kind for p in of_a_hundred for line in p.lines for i in (*line.first, *line.second)}
    assert inner >= set(NESTED)
    shapes = {v.shape for p in of_a_hundred for v in run(Plain(), p.lines, p.args)}
    assert {len(s) for s in shapes} >= {0, 1, 2, 3} and any(0 in s for s in shapes)


def test_a_number_behind_a_new_axis_is_of_the_axis_that_it_takes_an_element_of() -> None:
    a = np.zeros((1, 4, 2))
    for seed in range(300):
        ((_,), (key,)) = KINDS["slice"].draw(Seeded(np.random.default_rng(seed)), [a]) or (
            (0,),
            ((),),
        )
        assert a[key].ndim <= 2 * a.ndim


@settings(max_examples=examples(40, few=5), **QUIET)
@given(programs())
def test_gradients_are_those_of_central_differences(program: Random) -> None:
    agrees_with_differences(program)


def test_gradients_of_a_flat_argument_beside_a_large_total() -> None:
    """Its derivatives are 2e-4 and the other's 120: a small step shows rounding alone."""
    agrees_with_differences(programs.of(6273, 4))


@settings(max_examples=examples(40, few=5), **QUIET)
@given(programs())
def test_gradients_are_those_of_pytorch(program: Random) -> None:
    agrees_with_torch(program)


@pytest.mark.exhaustive
@settings(max_examples=3, **QUIET)
@example(programs.of(9, 9))  # padding around the one element of an array without dims
@given(programs())
def test_code_gives_them_too(program: Random) -> None:
    agrees_with_differences(program, compiled=True)


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "agrees",
    [
        agrees_with_differences,
        agrees_with_torch,
        partial(agrees_with_differences, compiled=True),
        agrees_when_computed_again,
    ],
    ids=["by central differences", "by pytorch", "by code", "computed again"],
)
@settings(max_examples=examples(500), **QUIET)
@given(program=programs())
def test_five_hundred(agrees: Callable[[Random], None], program: Random) -> None:
    agrees(program)
