"""What a loop changes a part of stays where it lies; what is read again is copied first."""

from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer import tensor
from explorer.grinder import LoopTask, uprogram
from explorer.ir.calls import KernelCall

ROWS = 1000


def compiled(function: Any) -> explorer.Compilation:
    return explorer.compile(explorer.trace(function), check=True)


def updates(c: explorer.Compilation) -> int:
    """How many kernels write over what they are given."""
    calls = (b.expr for _, b in c.program.bindings() if isinstance(b.expr, KernelCall))
    return sum(len(call.kernel.updates) for call in calls)


def staged(c: explorer.Compilation) -> bool:
    """Whether some loop copies a value that it carries."""
    found = uprogram(c.program)
    loops = [p for p in found.parts if isinstance(p, LoopTask)]
    values = found.values
    return any(
        x.staging or not values[x.result].is_at(values[x.param])
        for loop in loops
        for x in loop.carried
        if values[x.param].type.dims
    )


def same(c: explorer.Compilation, function: Any, *args: Any) -> None:
    wanted = function(*(np.copy(a) for a in args))
    for _ in range(2):
        found = c.run(*args).values()
        for a, b in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def cache(x: tensor("float32", 8, 4), k: tensor("int64")) -> Any:
    out = np.zeros((ROWS, 4), "float32")
    for t in range(k):
        out[t] = x[t % 8] * 2
    return out


def two_rows_of_a_state(x: tensor("float32", ROWS, 4), k: tensor("int64")) -> Any:
    y = x * 2
    for t in range(k):
        y[t + 1] = y[t] + 1
        y[t, 1] = y[t + 1].sum()
    return y


def in_a_branch(x: tensor("float32", ROWS, 4), k: tensor("int64")) -> Any:
    y = x * 2
    for t in range(k):
        if y[t, 0] > 0:
            y[t, 1:3] = 5
        elif y[t, 1] > 0:
            y[t] = -y[t]
    return y


def read_as_a_whole(x: tensor("float32", 32, 4), k: tensor("int64")) -> Any:
    y, total = x * 2, np.float32(0)
    for t in range(k):
        y[t] = 1
        total = total + y.max(0).sum()
    return y, total


def in_two_loops(x: tensor("float32", 32, 4), k: tensor("int64")) -> Any:
    y = x * 2
    for t in range(k):
        for s in range(t + 1):
            y[s, 1] += 1
        y[t, 0] = 3
    return y


IN_PLACE = {
    f.__name__: (f, n)
    for f, n in [
        (cache, 1),
        (two_rows_of_a_state, 2),
        (in_a_branch, 2),
        (read_as_a_whole, 1),
    ]
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_part_of_a_state_is_written_where_the_state_lies(name: str) -> None:
    function, count = IN_PLACE[name]
    c = compiled(function)
    assert updates(c) == count
    assert not staged(c)
    assert c.program.decisions.tasks.level == "device"
    shape = c.program.main.params[0].tensor.dims
    x = np.random.default_rng(3).standard_normal(shape).astype("float32")
    for k in (0, 1, 8):
        same(c, function, x, np.int64(k))


def old_and_new(x: tensor("float32", 32, 4), k: tensor("int64")) -> Any:
    y, old = x * 2, x * 3
    for t in range(k):
        old = y.copy()
        y[t] = 1
    return y, old


def of_what_stays(x: tensor("float32", 32, 4), k: tensor("int64")) -> Any:
    fixed, total = x * 2, x * 0
    for t in range(k):
        y = fixed.copy()
        y[t] = 1
        total = total + y
    return total, fixed


def other_state(x: tensor("float32", 32, 4), k: tensor("int64")) -> Any:
    a, b = x * 2, x * 3
    for t in range(k):
        old = a.copy()
        a[t] = b[t]
        a, b = b, old
    return a, b


def one_side(x: tensor("float32", 32, 4), k: tensor("int64")) -> Any:
    y = x * 2
    z = y.copy()
    for t in range(k):
        if y[t, 0] > 0:
            z = y.copy()
            z[t] = 1
        else:
            z = y + 1
    return y, z


def neither_side(x: tensor("float32", 32, 4), k: tensor("int64")) -> Any:
    table = xp.asarray(np.ones((32, 4), "float32"))
    total = x * 0
    for t in range(k):
        y = table.copy()
        if x[t, 0] > 0:
            y = table.copy()
        y[t] = x[t]
        total = total + y
    return total


def before_and_behind(x: tensor("float32", 32, 4), k: tensor("int64")) -> Any:
    y, total = x * 2, x * 0
    for t in range(k):
        old = xp.exp(y)
        y[t] = 1
        total = total + old + y
    return total, y


@pytest.mark.parametrize(
    "function",
    [
        old_and_new,
        of_what_stays,
        other_state,
        one_side,
        neither_side,
        in_two_loops,
        before_and_behind,
    ],
)
def test_what_is_read_again_is_not_written_over(function: Any) -> None:
    c = compiled(function)
    x = np.random.default_rng(4).standard_normal((32, 4)).astype("float32")
    before = x.copy()
    for k in (0, 1, 2, 9):
        same(c, function, x, np.int64(k))
    np.testing.assert_array_equal(x, before)


def test_the_host_s_values_are_not_written_over() -> None:
    def function(x: tensor("float32", "n", 4), k: tensor("int64")) -> Any:
        y = x * 1
        total = np.float32(0)
        for t in range(k):
            y[t] = 2
            total = total + x[x > 0].sum()  # how many there are a run says
        return y, total

    c = compiled(function)
    assert c.program.decisions.tasks.level == "host"
    x = np.random.default_rng(5).standard_normal((9, 4)).astype("float32")
    for k in (0, 1, 5):
        same(c, function, x, np.int64(k))


@pytest.mark.few(3)
@pytest.mark.parametrize("target", ["cpu", "cpu-avx2"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "float16"])
def test_a_block_of_every_dtype_and_odd_extents(dtype: str, target: str) -> None:
    def function(x: tensor(dtype, 5, 7, 13), v: tensor(dtype, 2, 1, 13), k: tensor("int64")) -> Any:
        y = x.copy()
        for t in range(k):
            y[t : t + 2, 3] = v[:, 0]
            y[:, t, 1:4] = v[0, 0, :3]
            y[t, t, t] = v[1, 0, 12]
        return y

    c = explorer.compile(explorer.trace(function), target=target, check=True)
    rng = np.random.default_rng(6)
    x, v = (rng.integers(0, 2, s).astype(dtype) for s in ((5, 7, 13), (2, 1, 13)))
    for k in (0, 1, 3):
        same(c, function, x, v, np.int64(k))
