"""Conversions of float16 in WebAssembly, which has no instruction for them: every bit of each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as enp
from tests.portable.elsewhere import Node, portable

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    there = Node(tmp_path_factory.mktemp("node"))
    yield there
    there.close()


def run(node: Node, function: Any, x: np.ndarray) -> np.ndarray:
    """The one output of a function, compiled for a browser."""
    annotation = explorer.tensor(str(x.dtype), *x.shape)
    model = explorer.load(explorer.trace(function), inputs={"x": annotation})
    c = explorer.compile(model, "wasm-simd128")
    (out,) = node(portable(c), {"x": x}).values()
    return out


@pytest.mark.parametrize("shape", [(1 << 16,), (13, 7)])
def test_every_half_is_widened_exactly(node: Node, shape: tuple[int, ...]) -> None:
    x = np.resize(HALVES[::5] if len(shape) > 1 else HALVES, shape)
    found, right = run(node, lambda x: enp.asarray(x, "float32") * 1, x), x.astype(np.float32)
    np.testing.assert_array_equal(found, right)
    assert (np.signbit(found) == np.signbit(right))[~np.isnan(right)].all()


@pytest.mark.parametrize("columns", [1, 64])
def test_floats_are_rounded_to_the_nearest_half_and_ties_to_even(node: Node, columns: int) -> None:
    halves = HALVES[np.isfinite(HALVES)].astype(np.float32)
    finite = HALVES[np.isfinite(HALVES)]
    with np.errstate(over="ignore"):
        steps = np.nextafter(finite, np.float16(np.inf)).astype(np.float32)
    ties = (halves + steps) / 2
    beside = np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(np.inf))
    rare = np.array([np.nan, np.inf, -np.inf, 65519.996, 65520, -65520, 1e30, 1e-30, 0, -0.0])
    x = np.concatenate([halves, ties, *beside, rare]).astype(np.float32)
    x = np.resize(x, (-(-len(x) // columns), columns))
    found = run(node, lambda x: enp.asarray(x * 1, "float16"), x)
    with np.errstate(over="ignore"):
        right = x.astype(np.float16)
    np.testing.assert_array_equal(found, right)
    assert (np.signbit(found) == np.signbit(right))[~np.isnan(right)].all()


def test_a_product_of_halves_is_right(node: Node) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, 33)).astype(np.float16)
    w = rng.standard_normal((33, 21)).astype(np.float16)
    found = run(node, lambda x: x @ w, x)
    right = (x.astype(np.float64) @ w.astype(np.float64)).astype(np.float16)
    np.testing.assert_allclose(found, right, rtol=2e-3, atol=2e-3)
