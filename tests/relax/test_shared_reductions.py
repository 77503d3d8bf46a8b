"""Long folds to a few results are shared among the units; all others stay whole."""

from __future__ import annotations

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.frontends.model import Model
from explorer.ir.kernel import Kernel
from explorer.passes.arrangement import Options as Steps
from explorer.relax.reductions import ShareLongReductions, SplitReduction


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


SUMS = ((16, 8192, 64), (64, 16384, 128), (1, 65536, 64))


def product(m: int, k: int, n: int) -> Model:
    @explorer.trace
    def program(x, y):  # type: ignore[no-untyped-def]
        return xp.tanh(xp.swapaxes(x, 0, 1) @ y)

    return program(x=explorer.tensor("float32", k, m), y=explorer.tensor("float32", k, n))


@pytest.mark.few(1)
@pytest.mark.parametrize("gpu", ["a100", "h100"])
@pytest.mark.parametrize("sizes", SUMS)
def test_long_products_are_summed_by_many_thread_blocks(
    sizes: tuple[int, int, int], gpu: str
) -> None:
    """Of few results, as gradients of weights are: the plan is much shorter."""
    c = explorer.compile(product(*sizes), target=gpu, until="planned")
    first, second = c.program.kernel_calls
    assert first.name.endswith("_parts") and second.name == "tanh"
    found = c.planned_wall().total_us
    whole = c.with_options(steps=Steps(off=("split and share reductions",)))
    assert len(list(whole.program.kernel_calls)) == 1
    assert found < 0.8 * whole.planned_wall().total_us


@pytest.mark.parametrize("sizes", [(64, 4096, 64), (512, 512, 512), (2048, 8192, 2048)])
def test_products_that_fill_a_gpu_or_end_soon_stay_whole(sizes: tuple[int, int, int]) -> None:
    c = explorer.compile(product(*sizes), target="h100", until="legalized")
    assert not any(b.name.endswith("_parts") for b in c.program.kernel_calls)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("m", "k"), [(1, 8192), (3, 24_000)])
def test_parts_of_thread_blocks_mean_the_same(m: int, k: int) -> None:
    c = explorer.compile(product(m, k, 5), target="cuda-sim")
    assert any(b.name.endswith("_parts") for b in c.program.kernel_calls)
    inputs = c.random_inputs()
    want = np.tanh(inputs["x"].astype(np.float64).T @ inputs["y"])
    for seed in (0, 1):
        (got,) = c.simulate(inputs, seed).values()
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("gpu", ["v100", "h100", "mi50"])
@pytest.mark.parametrize("sizes", [(0, 16384, 8), (4, 16384, 0), (0, 0, 0), (3, 0, 2)])
def test_what_has_no_elements_is_left_as_it_is(sizes: tuple[int, int, int], gpu: str) -> None:
    c = explorer.compile(product(*sizes), target=gpu, until="planned")
    (kernel,) = c.program.kernel_calls
    if not sizes[0] * sizes[2]:
        assert c.weighed_blocks(kernel.name) == c.taken_blocks(kernel.name) == ()
    assert c.planned_wall().total_us >= 0 and str(c.explain(kernel.name))
