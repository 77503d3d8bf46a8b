"""The elementary functions: their errors in ulp, special values, and powers, as NumPy has them."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from explorer.codegen.cpu.vector_math import power32
from tests.codegen.ulp import BOUNDS, BOUNDS_64, EXACT, every, largest_error, largest_error_64

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]
TINY = [1e-40, -1e-40, 1e-45, 5e-39, -103.9, -104.5, -95.0, 88.7, 88.8, 1e30, -1e30]
TINY_64 = [5e-324, 1e-310, -744.9, -745.2, -720.0, 709.7, 709.8, 1e300, -1e300]


@pytest.mark.parametrize("name", BOUNDS)
def test_an_error_in_float32_stays_below_its_bound(name: str) -> None:
    assert largest_error(name, step=20_011).ulp <= BOUNDS[name]


@pytest.mark.parametrize("name", BOUNDS_64)
def test_an_error_in_float64_stays_below_its_bound(name: str) -> None:
    assert largest_error_64(name, count=2_000).ulp <= BOUNDS_64[name]


@pytest.mark.few(5)
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", BOUNDS)
def test_special_values_are_numpys(name: str, bits: int) -> None:
    dtype = np.float32 if bits == 32 else np.float64
    x = np.array(SPECIAL + (TINY if bits == 32 else TINY_64), dtype)
    y = np.empty_like(x)
    every(name, bits)(x, y)
    with np.errstate(all="ignore"):
        want = EXACT[name](x.astype(np.float64)).astype(dtype)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(want))
    np.testing.assert_allclose(y, want, rtol=1e-6, atol=2 * np.finfo(dtype).smallest_subnormal)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(y[known]), np.signbit(want[known]))


def test_a_subnormal_result_is_not_flushed() -> None:
    x, y = np.linspace(-103, -88, 1000, dtype=np.float32), np.empty(1000, np.float32)
    every("exp")(x, y)
    step = np.finfo(np.float32).smallest_subnormal
    assert (np.abs(y - np.exp(x.astype(np.float64))) <= step).all()


@pytest.mark.parametrize("bits", [32, 64])
def test_powers_of_what_a_mask_hides_are_exactly_zero(bits: int) -> None:
    dtype = np.float32 if bits == 32 else np.float64
    lowest = float(np.finfo(dtype).min)
    below = [-104.0, -104.1, -1e4, lowest, -np.inf] if bits == 32 else [-746.0, lowest, -np.inf]
    y = np.empty(len(below), dtype)
    every("exp", bits)(np.array(below, dtype), y)
    np.testing.assert_array_equal(y, 0)
    assert not np.signbit(y).any()


def test_powers_are_numpys() -> None:
    run = njit(error_model="numpy")(_powers)
    some = [2, -2, 3, -3, 0.5, -0.5, 2.5, -2.5, 1e38, -1e38, 16777217, 8388609, -16777215, 1e10]
    s = np.array([*SPECIAL, *some, *TINY], np.float32)
    x, y = (a.ravel().copy() for a in np.meshgrid(s, s))
    z = np.empty_like(x)
    run(x, y, z)
    with np.errstate(all="ignore"):
        want = np.power(x, y)
    np.testing.assert_array_equal(np.isnan(z), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(z), np.isinf(want))
    np.testing.assert_array_equal(np.signbit(z[~np.isnan(z)]), np.signbit(want[~np.isnan(z)]))
    np.testing.assert_array_max_ulp(z[np.isfinite(z)], want[np.isfinite(z)], 1)


def _powers(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> None:
    for i in range(x.size):
        z[i] = power32(x[i], y[i])
