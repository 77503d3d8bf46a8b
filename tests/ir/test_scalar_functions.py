"""Scalar functions: each record's derivative is the slope of its meaning, and its dtypes hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.ir.dtypes import ITEM_BYTES, numpy_dtype
from explorer.ir.scalar_functions import RECORDS, SCALAR_FUNCTIONS, ScalarFunction, dtype_of_result
from explorer.ops.verify_kernel import result_of

STEP = 1e-6
INSIDE = {"acosh": (1.1, 3.0), "log": (0.1, 3.0), "sqrt": (0.1, 3.0), "pow": (0.2, 2.0)}
INSIDE |= {name: (-0.9, 0.9) for name in ("asin", "acos", "atanh")}
SMOOTH = [r for r in RECORDS if r.derivative is not None and r.name not in ("where", "mod")]


def in_numpy(name: str, *args: Any) -> Any:
    return SCALAR_FUNCTIONS[name].numpy(*args)


@pytest.mark.parametrize("record", SMOOTH, ids=lambda r: r.name)
def test_a_derivative_is_the_slope(record: ScalarFunction) -> None:
    low, high = INSIDE.get(record.name, (-2.0, 2.0))
    rng = np.random.default_rng(len(record.name))
    args = [rng.uniform(low, high, 200) for _ in range(record.arity)]
    if record.name == "div":
        args[1] = np.sign(args[1]) * (np.abs(args[1]) + 0.3)
    assert record.derivative is not None
    found = record.derivative(in_numpy, record.numpy(*args), *args)
    assert len(found) == record.arity
    for n, partial in enumerate(found):
        up, down = list(args), list(args)
        up[n], down[n] = args[n] + STEP, args[n] - STEP
        slope = (record.numpy(*up) - record.numpy(*down)) / (2 * STEP)
        np.testing.assert_allclose(np.broadcast_to(partial, slope.shape), slope, 1e-4, 1e-5)


def test_ties_of_extremes_are_shared() -> None:
    for name in ("max", "min"):
        rule = SCALAR_FUNCTIONS[name].derivative
        assert rule is not None
        x = np.array([1.0, -2.0])
        assert [list(p) for p in rule(in_numpy, x, x, x)] == [[0.5, 0.5], [0.5, 0.5]]


def test_where_gives_its_slope_to_the_one_that_was_taken() -> None:
    rule = SCALAR_FUNCTIONS["where"].derivative
    assert rule is not None
    c = np.array([True, False])
    none, first, second = rule(in_numpy, c, c, c, c)
    assert none is None and list(first) == [1.0, 0.0] and list(second) == [0.0, 1.0]


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.name)
def test_a_record_says_what_its_meaning_takes_and_gives(record: ScalarFunction) -> None:
    taken = [d for d in ITEM_BYTES if record.is_defined_on(d)]
    assert taken
    for dtype in ITEM_BYTES:
        given = ["bool", dtype, dtype] if record.name == "where" else [dtype] * record.arity
        found, problem = result_of(record.name, given)
        assert bool(problem) == (dtype not in taken)
        if problem:
            continue
        assert found == dtype_of_result(record.name, lambda n, g=given: g[n])  # type: ignore[misc]
        if dtype in ("float32", "float64", "int64", "int32") or record.takes == "bool":
            with np.errstate(all="ignore"):
                args = [np.ones(2, numpy_dtype(d)) for d in given]
                assert record.numpy(*args).dtype.kind == np.dtype(numpy_dtype(found)).kind


def test_vectors_are_only_of_dtypes_that_are_taken() -> None:
    for record in RECORDS:
        wrong = [d for d in ITEM_BYTES if record.has_vectors_of(d) and not record.is_defined_on(d)]
        assert not wrong or record.takes == "bool"  # truth has one vector form for all
