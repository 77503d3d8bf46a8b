"""Loops that end where a counter meets a number are told their trips; what they compute stays."""

from __future__ import annotations

import numpy as np
import pytest

import explorer
import explorer.np as xp
from explorer import tensor
from explorer.grinder import Options as GrinderOptions
from explorer.ir.calls import Loop
from explorer.ops.interpreter.evaluate import evaluate
from explorer.process.counters import counters
from explorer.rammer import Options as RammerOptions

N, X = tensor("int64"), tensor("float32", 4)


@explorer.trace
def from_zero(n: N, x: X):
    i = 0
    while i < n:
        x = (x * 0.5 + i).astype("float32")
        i = i + 1
    return x, i


@explorer.trace
def from_another(n: N, x: X):
    i = n // 2
    while n > i:
        x = (x * 0.5 + i).astype("float32")
        i = 1 + i
    return x, i


@explorer.trace
def counts_alone(n: N, x: X):
    i = n - 3
    while i < n:
        i = i + 1
    return x, i


@explorer.trace
def ended_by_data(n: N, x: X):
    i = 0
    while i < n and xp.sum(x) < 100:
        x = (x * 2 + i).astype("float32")
        i = i + 1
    return x, i


@explorer.trace
def nested(n: N, x: X):
    i = 0
    while i < n:
        j = i
        while j < n:
            x = (x * 0.5 + j).astype("float32")
            j = j + 1
        i = i + 1
    return x, i


@explorer.trace
def of_constants(n: N, x: X):
    i = n * 0
    while i < 3:
        x = (x * 0.5 + i + n).astype("float32")
        i = i + 1
    return x, i


@explorer.trace
def by_twos(n: N, x: X):
    i = 0
    while i < n:
        x, i = (x + i).astype("float32"), i + 2
    return x, i


@explorer.trace
def to_a_moving_limit(n: N, x: X):
    i = 0
    while i < n:
        x, i, n = (x + i).astype("float32"), i + 1, n - 1
    return x, i


@explorer.trace
def of_narrow_numbers(n: N, x: X):
    i, end = (n * 0).astype("int32"), n.astype("int32")
    while i < end:
        x, i = x + 1, (i + 1).astype("int32")
    return x, i


COUNTED = from_zero, from_another, counts_alone, ended_by_data, nested, of_constants
OTHERS = by_twos, to_a_moving_limit, of_narrow_numbers


def loops(c):
    return [b.expr for _, b in c.program.bindings() if isinstance(b.expr, Loop)]


@pytest.mark.few(6)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("model", [*COUNTED, *OTHERS], ids=lambda m: m.__name__)
def test_a_loop_that_counts_gives_what_it_did(model, threads):
    c = explorer.compile(model, options=explorer.Options(rammer=RammerOptions(threads=threads)))
    assert all(loop.trip is not None for loop in loops(c)) == (model in COUNTED)
    for n in (-2, 0, 1, 2, 9):
        for x in ([1, -2, np.nan, np.inf], [0, 0, 0, 0], [1, 1, 1, 1]):
            inputs = {"n": np.array(n), "x": np.array(x, np.float32)}
            wanted = evaluate(explorer.load(model).program, inputs)
            for a, b in zip(c.run(inputs).values(), wanted.values(), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6)
                assert a.dtype == b.dtype


def test_no_kernel_of_a_loop_compares_and_a_counter_that_does_nothing_else_has_no_loop():
    assert not any("less" in k.name for k in explorer.compile(from_zero).kernels)
    assert not loops(explorer.compile(counts_alone))


def test_where_the_host_decides_it_reads_once_how_many_trips_there_are():
    options = explorer.Options(grinder=GrinderOptions(schedule="host"))
    c = explorer.compile(from_zero, options=options)
    inputs = {"n": np.array(5), "x": np.ones(4, np.float32)}
    c.run(inputs)
    with counters.delta() as did:
        c.run(inputs)
    assert did.counts.host_reads <= 2  # of the trips, and of what goes on


def test_a_loop_that_gives_nothing_is_none():
    @explorer.trace
    def idle(n: N, x: X):
        for _ in range(n):
            pass
        return x + 1

    c = explorer.compile(idle)
    (found,) = c.run({"n": np.array(3), "x": np.zeros(4, np.float32)}).values()
    assert (found == 1).all() and not loops(c)
