"""Kernels that walk one grid over the same tensors as one kernel with several results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
import explorer.np as enp
from explorer.ir.calls import KernelCall
from explorer.ir.program import Program
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.rammer import Options as RammerOptions
from explorer.welder import JoinResults
from tests.examples import examples

GRID = explorer.tensor("float32", 5, 7)


def after_join(before: Program) -> Program:
    """The program joined for a machine on which nothing is near."""
    device = explorer.compile(explorer.trace(lambda x: x + 1)(GRID)).device
    far = replace(device.levels[0], capacity_bytes=0)
    after = JoinResults(replace(device, levels=(far, *device.levels[1:])))(before)
    verify(after)
    return after


def results(p: Program) -> list[int]:
    """How many results each kernel has."""
    return [len(b.vars) for b in p.kernel_calls]


def agrees(model: Any, expected: Any, *inputs: np.ndarray) -> Program:
    """The joined program, which gives what is expected."""
    before = explorer.compile(model).snapshot("fuse (Welder)").after
    after = after_join(before)
    given = dict(zip((p.name for p in before.functions[0].params), inputs, strict=True))
    for got, want in zip(evaluate(after, given).values(), expected(*inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return after


DRAW = np.random.default_rng(0)
X, Y = (DRAW.standard_normal((5, 7)).astype(np.float32) for _ in range(2))


def test_what_an_optimizer_updates_is_one_kernel_and_what_only_it_reads_is_not_stored() -> None:
    many = explorer.tensor("float32", 311, 709)

    def model(m: Any, g: Any, p: Any, skip: Any) -> Any:
        new = 0.9 * m + 0.1 * g
        return enp.where(skip, p, p - new), enp.where(skip, m, new)

    traced = explorer.trace(model)(many, many, many, explorer.tensor("bool"))
    options = explorer.Options(rammer=RammerOptions(threads=2))
    c = explorer.compile(traced, options=options, check=True)
    assert results(c.program) == [2]
    m, g, p = (DRAW.standard_normal((311, 709)).astype(np.float32) for _ in range(3))
    new = 0.9 * m + 0.1 * g
    for skip in (False, True):
        found = c.run(m, g, p, np.array(skip))
        want = (p, m) if skip else (p - new, new)
        for got, right in zip(found.values(), want, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6)
    graph = c.program.decisions.tile_graph
    assert graph is not None
    (group,) = graph.groups
    assert group.bytes_after == 5 * 311 * 709 * 4 + 1
    assert group.bytes_before > group.bytes_after


def test_what_lies_near_is_read_again_for_nothing() -> None:
    def model(x: Any) -> Any:
        y = x @ x.T
        return enp.tanh(y), enp.exp(y)

    assert max(results(explorer.compile(explorer.trace(model)(GRID)).program)) == 1
    large = explorer.tensor("float32", 700, 700)
    assert max(results(explorer.compile(explorer.trace(model)(large)).program)) == 2


def test_a_result_that_may_be_written_over_an_input_is_made_by_what_else_reads_it() -> None:
    def model(m: Any, g: Any) -> Any:
        new = 0.9 * m + g
        return enp.where(g > 0, m, new), (new * new).sum(axis=0)

    c = explorer.compile(explorer.trace(model)(GRID, GRID), donate=["m"])
    assert c.donated["m"]
    m = X.copy()
    got, squares = c.run(m, Y).values()
    assert got is m or got.ctypes.data == m.ctypes.data
    new = 0.9 * X + Y
    np.testing.assert_allclose(got, np.where(Y > 0, X, new), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(squares, (new * new).sum(axis=0), rtol=1e-5, atol=1e-6)


def test_a_kernel_between_two_keeps_them_apart() -> None:
    def model(x: Any) -> Any:
        a = enp.tanh(x)
        return a, a * a.sum()  # the sum needs all of a before the product begins

    p = agrees(
        explorer.trace(model)(GRID), lambda x: (np.tanh(x), np.tanh(x) * np.tanh(x).sum()), X
    )
    assert max(results(p)) == 1


def test_two_loops_that_would_need_each_other_do_not_both_join() -> None:
    def model(x: Any, y: Any) -> Any:
        a, c = enp.tanh(x), enp.exp(y)
        b = enp.sin(x) + c.sum()  # shares x with a, needs all of c
        d = enp.cos(y) + a.sum()  # shares y with c, needs all of a
        return a, b, c, d

    def expected(x: np.ndarray, y: np.ndarray) -> Any:
        a, c = np.tanh(x), np.exp(y)
        return a, np.sin(x) + c.sum(), c, np.cos(y) + a.sum()

    agrees(explorer.trace(model)(GRID, GRID), expected, X, Y)


def test_what_is_read_turned_is_another_tiles() -> None:
    square = explorer.tensor("float32", 6, 6)

    def model(x: Any) -> Any:
        a = enp.tanh(x)
        return a, a + a.T

    x = DRAW.standard_normal((6, 6)).astype(np.float32)
    p = agrees(explorer.trace(model)(square), lambda x: (np.tanh(x), np.tanh(x) + np.tanh(x).T), x)
    assert max(results(p)) == 1


def test_what_reads_a_value_stays_before_what_is_written_over_it() -> None:
    def model(x: Any, v: Any) -> Any:
        return enp.tanh(x), (enp.tanh(x) * v).sum(), v + 1, enp.exp(x)

    before = explorer.compile(explorer.trace(model)(GRID, GRID)).snapshot("fuse (Welder)").after
    f = before.functions[0]
    body = []
    for b in f.body:
        call = b.expr
        if isinstance(call, KernelCall) and [a.name for a in call.args] == ["v"]:
            kernel = replace(call.kernel, updates=((call.kernel.output, call.kernel.inputs[0]),))
            b = replace(b, expr=replace(call, kernel=kernel))
        body.append(b)
    (over,) = (n for n, b in enumerate(body) if [a.name for a in b.reads] == ["v"])
    maps = [n for n, b in enumerate(body) if [a.name for a in b.reads] == ["x"]]
    assert maps[0] < over < maps[-1], [b.name for b in body]
    after = after_join(before.with_function(replace(f, body=tuple(body)))).functions[0].body
    assert len(after) == len(body) - 1
    place = {v.name: n for n, b in enumerate(after) for v in b.vars}
    readers = [n for n, b in enumerate(after) if "v" in [a.name for a in b.reads]]
    assert max(readers) == place[body[over].name]


@pytest.mark.exhaustive
@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_random_maps_and_sums_equal_numpy(data: st.DataObject) -> None:
    """Values of one grid, its turned, its rows and its sum, mapped from each other at random."""
    n = data.draw(st.integers(1, 5))
    grid = explorer.tensor("float32", n, n)
    picks = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["add", "mul", "tanh", "turn", "sum", "row", "where", "exp"]),
                st.integers(0, 30),
                st.integers(0, 30),
            ),
            min_size=2,
            max_size=14,
        )
    )
    wanted = data.draw(st.sets(st.integers(0, len(picks) + 1), min_size=1, max_size=6))

    def model(x: Any, y: Any, xp: Any = enp) -> Any:
        values = [x, y]
        for kind, a, b in picks:
            p, q = values[a % len(values)], values[b % len(values)]
            values.append(
                {
                    "add": lambda p, q: p + q,
                    "mul": lambda p, q: 0.5 * p * q,
                    "tanh": lambda p, q: xp.tanh(p),
                    "turn": lambda p, q: p + q.T,
                    "sum": lambda p, q: p + 0.1 * q.sum(),
                    "row": lambda p, q: p - q[0],
                    "where": lambda p, q: xp.where(p > 0, p, q),
                    "exp": lambda p, q: xp.exp(-p * p),
                }[kind](p, q)
            )
        return tuple(values[w] + 1 for w in sorted(wanted))

    x, y = (np.random.default_rng(s).uniform(-1, 1, (n, n)).astype(np.float32) for s in (0, 1))
    traced = explorer.trace(lambda x, y: model(x, y))(grid, grid)
    before = explorer.compile(traced).snapshot("fuse (Welder)").after
    after = after_join(before)
    right = model(x.astype(np.float64), y.astype(np.float64), np)
    for program in (before, after):
        found = evaluate(program, {"x": x, "y": y})
        for got, want in zip(found.values(), right, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-4)
