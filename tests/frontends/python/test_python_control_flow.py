"""Python's own `if`, `while` and `for` in a traced function: on NumPy and compiled they agree."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import explorer
from explorer import np as xp
from explorer.errors import TraceError
from explorer.frontends.python.trace import Traced
from tests.examples import examples
from tests.frontends.python.test_control_flow import agrees, floats, kinds
from tests.strategies.python_flow import BOUNDS, block, written

tensor = explorer.tensor
LIMIT = 3.0
LENGTHS = (1.0, 2.0, 3.0)


@explorer.trace
def one_of_two(x: tensor("float32", "n", 4)) -> Any:
    y = x * 2
    if y.sum() > 0:
        z = y + 1
        y = z * z
    elif y.max() > LIMIT:
        y = y - 1
    return y


def test_an_if_on_data_is_a_branch() -> None:
    model = agrees(one_of_two, [{"x": floats(3, 4)}, {"x": -np.ones((2, 4), np.float32)}])
    assert kinds(model).count("Branch") == 2


@explorer.trace
def until(x: tensor("float32", 4), k: tensor("int64")) -> Any:
    total, i = 0.0, 0
    while i < k and not total > 100:
        total = total + x.sum()
        i += 1
    else:
        i = i + 1000
    return total, i


def test_a_while_on_data_is_a_loop() -> None:
    ones = np.ones(4, np.float32)
    trials = [{"x": ones * f, "k": np.int64(k)} for f, k in ((1, 5), (20, 5), (1, 0))]
    model = agrees(until, trials)
    assert kinds(model).count("Loop") == 1


@explorer.trace
def rows(x: tensor("float32", "n", 4)) -> Any:
    s, count = xp.zeros(4, "float32"), 0
    for row in x:
        if row.max() < 0:
            continue
        if s.sum() > 10:
            break
        s = s + row
        count += 1
    else:
        s = -s
    return s, count


def test_rows_are_gone_over_with_break_continue_and_else() -> None:
    ones = np.ones((9, 4), np.float32)
    model = agrees(rows, [{"x": floats(9, 4)}, {"x": ones}, {"x": -ones}, {"x": ones[:1]}])
    assert "Loop" in kinds(model)


@explorer.trace
def returns(x: tensor("float32", 4)) -> Any:
    if x.sum() > 0:
        if x[0] > 1:
            return x * 3
        x = x + 0.5
    elif x.max() > 0:
        return x - 1
    y = x * 2
    return y if 0 < y[1] < 9 else -y


def test_a_return_may_stand_on_either_side() -> None:
    given = ([1, 1, 1, 1], [2, 1, 1, 1], [1, -5, 1, 1], [-1, -1, -1, -1], [0, 0, 0, 0])
    agrees(returns, [{"x": np.array(v, np.float32)} for v in given])


@explorer.trace
def counted(x: tensor("float32", "n", 4), k: tensor("int64")) -> Any:
    a = x[0]
    for i in range(k):
        for j, row in enumerate(x):
            a = a * 0.5 + row * i + j
    for j in range(2, x.shape[0], 3):
        a = a + x[j]
    for p, q in zip(x, reversed(x)):
        a = a + p * q
    return a


def test_ranges_and_pairs_of_what_only_a_run_knows_are_loops() -> None:
    trials = [{"x": floats(n, 4), "k": np.int64(k)} for n, k in ((3, 3), (1, 0), (8, 2), (2, -4))]
    assert kinds(agrees(counted, trials)).count("Loop") == 4


@explorer.trace
def between(x: tensor("float32", 4), k: tensor("int64"), small: tensor("uint8")) -> Any:
    for i in range(k, 0, -2):
        x = x + i * 0.125
    for i in range(k, 5):
        x = x * 0.5 + i
    for i in range(small, 260):
        x = x + i * 0.5
    return x


def test_a_number_of_a_range_is_pythons_wherever_the_range_begins() -> None:
    """It yields to an array's dtype, and does not wrap at the width of the range's bounds."""
    trials = [{"x": floats(4), "k": np.int64(k), "small": np.uint8(255)} for k in (0, 3, 7, -2)]
    assert kinds(agrees(between, trials)).count("Loop") == 3


@explorer.trace
def of_known_rows(x: tensor("float32", 3, 4)) -> Any:
    found: list[Any] = []
    for i, row in enumerate(x):
        found.append(row * LENGTHS[i])
    for row, back in zip(x, reversed(x)):
        found.append(row + back)
    return xp.stack(found)


def test_rows_whose_number_is_known_are_gone_over_while_tracing() -> None:
    assert kinds(agrees(of_known_rows, [{"x": floats(3, 4)}])) == []


@explorer.trace
def plain(x: tensor("float32", "n", 4), mode: str = "twice") -> Any:
    kinds = []
    for i in range(3):
        if mode == "twice" and i != 1:
            kinds.append(i)
            continue
        x = x + i
    while len(kinds) > 1:
        kinds.pop()
    scale = 2 if kinds else None
    return x if scale is None or not kinds else x * scale


def test_what_python_knows_is_pythons() -> None:
    assert kinds(agrees(plain, [{"x": floats(3, 4)}])) == []


def scaled(by: float) -> Traced:
    other = explorer.trace(doubled)

    def run(x: tensor("float32", 4), /, *, more: float = 1.0) -> Any:
        def inside(v: Any) -> Any:
            if v[0] > 0:
                return v * by
            return v - more

        for _ in range(2):
            x = inside(other(x))
        return x

    return explorer.trace(run)


def doubled(x: Any) -> Any:
    if x.sum() > 2:
        return x * 2
    return x


def test_closures_defaults_and_other_functions_keep_their_meaning() -> None:
    compiled = explorer.compile(explorer.load(scaled(3.0)))
    for x in (np.ones(4, np.float32), -np.ones(4, np.float32)):
        np.testing.assert_allclose(compiled.run({"x": x})["output"], scaled(3.0)(x), rtol=1e-6)


class Layer:
    def __init__(self) -> None:
        self.w = floats(4, 4)

    def run(self, x: tensor("float32", 4)) -> Any:
        while xp.abs(x).sum() > 1:
            x = x @ self.w * 0.1
        return x


def test_a_method_is_traced_too() -> None:
    layer = Layer()
    compiled = explorer.compile(explorer.load(explorer.trace(layer.run)))
    x = floats(4) * 10
    np.testing.assert_allclose(compiled.run({"x": x})["output"], layer.run(x), rtol=1e-4, atol=1e-6)


class Halved:
    def run(self, x: Any) -> Any:
        return x * 0.5


class Scaled(Halved):
    training = True

    def run(self, x: tensor("float32", 4)) -> Any:
        if self.training:
            x = super().run(x)
        while x.sum() > 100:
            x = super().run(x)
        return super().run(x) if x.sum() > 0 else x


def test_super_is_the_methods_own_on_either_side() -> None:
    layer = Scaled()
    compiled = explorer.compile(explorer.load(explorer.trace(layer.run)))
    for x in (floats(4) * 10, -floats(4) * 10):
        found = compiled.run({"x": x})["output"]
        np.testing.assert_allclose(found, layer.run(x), rtol=1e-4, atol=1e-6)


def one_side(x: tensor("float32", 4)) -> Any:
    if x.sum() > 0:
        y = x + 1
    return y


def other_kind(x: tensor("float32", 4)) -> Any:
    name = "a"
    if x.sum() > 0:
        name = None
    return x if name else -x


def returned_in_a_loop(x: tensor("float32", "n", 4)) -> Any:
    for row in x:
        if row.sum() > 0:
            return row
    return x[0]


def only_within(x: tensor("float32", "n", 4)) -> Any:
    for row in x:
        last = row * 2
    return last


def deleted(x: tensor("float32", 4)) -> Any:
    y = x
    if x.sum() > 0:
        del y
    return x


def changed_kind(x: tensor("float32", 4)) -> Any:
    how = "a"
    while x.sum() > 0:
        x, how = x - 1, "b"
    return x if how else -x


def appended(x: tensor("float32", "n", 4)) -> Any:
    found: list[Any] = []
    if x.sum() > 0:
        found.append(x)
    return x * len(found)


def appended_rows(x: tensor("float32", "n", 4)) -> Any:
    found: list[Any] = []
    for row in x:
        found.append(row * 2)
    return xp.stack(found)


def raised(x: tensor("float32", 4)) -> Any:
    if x.sum() > 0:
        raise ValueError
    return x


def in_halves(x: tensor("float32", 4)) -> Any:
    for i in range(x[0]):
        x = x + i
    return x


def put(x: tensor("float32", 4)) -> Any:
    kept = {}
    while x.sum() > 0:
        x = x - 1
        kept["x"] = x
    return x


REFUSED = {
    appended: (2, "cannot contain: call of found.append for its effect"),
    appended_rows: (2, "cannot contain: call of found.append for its effect"),
    raised: (1, "cannot contain: raise"),
    in_halves: (1, "bounds of a traced range must be integers, not float32"),
    put: (2, "cannot contain: change of elements of kept, which is a dict"),
    one_side: (1, "y has a value after one branch only"),
    other_kind: (2, "name is None after one branch and of type str after the other"),
    returned_in_a_loop: (1, "cannot contain: return inside of a loop"),
    only_within: (1, "last has a value only after an iteration of a loop"),
    deleted: (2, "cannot contain: del"),
    changed_kind: (2, "how is of type str before a step and of type str after it"),
}


@pytest.mark.parametrize("run", REFUSED, ids=lambda r: r.__name__)
def test_what_cannot_be_traced_is_refused_by_name_and_line(run: Callable[..., Any]) -> None:
    offset, words = REFUSED[run]
    line = run.__code__.co_firstlineno + offset
    with pytest.raises(TraceError, match=words) as caught:
        explorer.load(explorer.trace(run))
    assert f"{Path(__file__).name}:{line}" in str(caught.value)


# Random programs: the text run by Python on NumPy arrays, and compiled.


@settings(max_examples=examples(40, few=15))
@given(lines=block(2, False))
def test_random_programs_mean_what_python_means(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    means_what_python_means(tmp_path_factory.mktemp("random"), lines)


def means_what_python_means(folder: Path, lines: list[str]) -> None:
    run = written(folder, lines)
    program = explorer.load(run, BOUNDS).program
    for n, k in ((2, 0), (3, 2), (5, 4)):
        inputs = {"x": floats(n, 4, seed=n), "k": np.int64(k)}
        found = explorer.evaluate(program, inputs)
        for value, wanted in zip(found.values(), run(**inputs), strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


def test_a_number_is_a_condition_as_in_python() -> None:
    """The conversion of it to a truth value is of no call of the line."""

    @explorer.trace
    def greatest(a: explorer.tensor("int64"), b: explorer.tensor("int64")) -> object:
        while b:
            a, b = b, a % b
        return a

    @explorer.trace
    def one_more(x: explorer.tensor("float32")) -> object:
        if x:
            x = x + 1
        return x

    c = explorer.compile(greatest)
    for a, b in ((12, 18), (7, 0), (0, 5), (1, 1), (270, 192)):
        (got,) = c.run({"a": np.int64(a), "b": np.int64(b)}).values()
        assert got == gcd(a, b)
    c = explorer.compile(one_more)
    for x, expected in ((0.0, 0.0), (-0.0, -0.0), (2.0, 3.0), (np.nan, np.nan)):
        (got,) = c.run({"x": np.float32(x)}).values()
        np.testing.assert_equal(float(got), expected)
