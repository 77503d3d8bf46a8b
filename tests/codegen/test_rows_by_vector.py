"""One row by a matrix that lies with the depth along its rows is summed along these rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer import tensor


def compiled(rows: Any, columns: Any, depth: Any, weights: np.ndarray | None = None) -> Any:
    @explorer.trace
    def scores(q, k):  # type: ignore[no-untyped-def]
        keys = k if weights is None else xp.asarray(weights)
        return q @ xp.swapaxes(keys, 1, 2) * 0.5 + 1

    q, k = tensor("float32", 3, rows, depth), tensor("float32", 3, columns, depth)
    return explorer.compile(scores(q=q, k=k), check=True)


def text(c: Any) -> str:
    return "\n".join(k.source for k in c.kernels)


@pytest.mark.few(5)
@pytest.mark.parametrize("depth", [1, 3, 16, 48, 100])
@pytest.mark.parametrize("columns", [5, 16, 131])
def test_it_is_right_and_turns_nothing(columns: int, depth: int) -> None:
    c = compiled(1, columns, depth)
    assert "_panels" not in text(c)
    rng = np.random.default_rng(depth)
    q = rng.standard_normal((3, 1, depth)).astype(np.float32)
    k = rng.standard_normal((3, columns, depth)).astype(np.float32)
    k[1, 2] = np.nan  # of one row alone
    (found,) = c.run(q, k).values()
    wanted = q.astype(np.float64) @ k.swapaxes(1, 2) * 0.5 + 1
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert np.isnan(found).sum() == 1


def test_the_extents_may_be_symbols() -> None:
    c = compiled(1, "n", "d")
    for n, d in ((7, 33), (1, 1), (64, 16)):
        q, k = np.ones((3, 1, d), np.float32), np.ones((3, n, d), np.float32)
        (found,) = c.run(q, k).values()
        np.testing.assert_array_equal(found, np.full((3, 1, n), d * 0.5 + 1, np.float32))


def test_panels_are_made_where_they_are_read_more_than_once_or_ahead() -> None:
    assert "_panels" in text(compiled(8, 131, 48))
    weights = np.ones((3, 131, 48), np.float32)
    assert "_packed" in text(compiled(1, 131, 48, weights))
