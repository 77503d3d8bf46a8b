"""Long folds to a few results are shared among the units; all others stay whole."""

from __future__ import annotations

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.frontends.model import Model
from explorer.ir.kernel import Kernel
from explorer.relax.reductions.shared_reductions import ShareLongReductions
from explorer.relax.reductions.split_reduction import SplitReduction


def model(shape: tuple[int, ...], axis: int | None, how: str) -> Model:
    @explorer.trace
    def program(x):  # type: ignore[no-untyped-def]
        return getattr(xp, how)(x, axis=axis)

    return program(x=explorer.tensor("float32", *shape))


def folds(m: Model) -> list[Kernel]:
    done = explorer.compile(m, until="legalized")
    return [b.expr.kernel for b in ShareLongReductions(2)(done.program).kernel_calls]


@pytest.mark.parametrize("how", ["sum", "max", "mean"])
@pytest.mark.parametrize(("shape", "axis"), [((1, 1 << 17), 1), ((512, 300), None)])
def test_a_long_fold_is_shared_and_means_the_same(
    how: str, shape: tuple[int, ...], axis: int | None
) -> None:
    found = folds(model(shape, axis, how))
    assert len(found) == 2 and found[0].computes[0].axes[0].extent == 2
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    (got,) = explorer.compile(model(shape, axis, how)).run({"x": x}).values()
    want = getattr(np, how)(x.astype(np.float64), axis=axis)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("shape", "axis", "why"),
    [
        ((1, 4096), 1, "it reads 4096 elements, fewer than 65536"),
        ((64, 4096), 1, "it has 64 results, which are enough"),
        ((1, 65537), 1, "65537 is not divided by a number of parts"),
    ],
)
def test_a_fold_that_stays_whole_says_why(shape: tuple[int, ...], axis: int, why: str) -> None:
    (kernel,) = folds(model(shape, axis, "sum"))
    done = explorer.compile(model(shape, axis, "sum"), until="legalized")
    answer = SplitReduction(2).choose(kernel, kernel.computes[0], done.program.env)
    assert isinstance(answer, str) and answer.startswith(why)


def test_one_unit_shares_nothing() -> None:
    done = explorer.compile(model((1, 1 << 17), 1, "sum"), until="typed")
    assert ShareLongReductions(1)(done.program) is done.program
