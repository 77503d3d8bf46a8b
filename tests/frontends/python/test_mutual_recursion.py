"""Python functions that call each other, or themselves with other shapes, agree with themselves on
NumPy's arrays; on the device where one of them can stand for all.
"""

from random import Random
from typing import Any

import numpy as np
import pytest

import explorer
import explorer.np as xp
from explorer import tensor
from explorer.errors import BoundError, DtypeError, ShapeError, TraceError
from explorer.grinder import SCHEDULES
from explorer.grinder import Options as Grinder
from explorer.ir.decisions.control import TaskTree
from tests.examples import examples
from tests.frontends.python.test_recursion import STEPS, agree, options

WIDE, PROGRAMS = 5, 60
VECTOR, COUNT = tensor("float32", WIDE), tensor("int64")


def circle(seed: int) -> tuple[Any, bool]:
    """Two or three random functions over (x, w, k), of which each calls others of them, or itself,
    with a smaller count; and whether one can stand for all: no other one calls itself.
    """
    rnd = Random(seed)
    count, symbolic = rnd.choice([2, 2, 3]), rnd.random() < 0.4
    kinds = [tensor("float32", f"n{rnd.choice([n, 0])}") if symbolic else VECTOR for n in range(3)]
    steps = STEPS[:3] if symbolic else STEPS
    functions: list[Any] = []
    calls: list[list[int]] = []
    for n in range(count):
        others = [m for m in range(count) if m != n]
        own = [n] if rnd.random() < 0.2 else []
        calls.append([others[-1] if n == 0 else others[0], *rnd.sample([*others, *own], 1)])
        calls[n] = calls[n][: rnd.choice([1, 2])]

    def written(n: int) -> Any:
        chosen = [rnd.choice(steps) for _ in range(3)]
        given = [rnd.random() for _ in range(40)]
        less, looped = rnd.choice([1, 2]), rnd.random() < 0.25
        data_too = not symbolic and rnd.random() < 0.5  # else a run checks that there is an x[1]

        def deeper(x: Any, w: Any, k: Any) -> Any:
            drawn = iter(given)
            values = [x, w]

            def pick(known: list[Any]) -> Any:
                return known[int(next(drawn) * len(known))]

            for step, callee in zip(chosen, calls[n]):
                values.append(step(values, pick))
                values.append(functions[callee](pick(values), pick(values), k - less))
            return values[-1] + pick(values) * 0.25

        kind = kinds[n]
        if looped:

            @explorer.function(result=kind)
            def f(x: kind, w: kind, k: COUNT) -> Any:
                if k > 0:
                    for i in range(2):
                        x = deeper(x * 0.5 + i, w, k)
                return x

        else:

            @explorer.function(result=kind)
            def f(x: kind, w: kind, k: COUNT) -> Any:
                if k <= 0:
                    return chosen[0]([x, w], lambda known: known[0])
                if data_too and x[1] > 1.5:
                    return x - w
                return deeper(x, w, k)

        f.run.__name__ = f"f{n}"
        return f

    functions += [written(n) for n in range(count)]
    one = any(not _circles(calls, n) for n in range(count))
    several = rnd.random() < 0.3 and not symbolic
    main = tensor("float32", "batch") if symbolic else VECTOR

    @explorer.trace
    def model(x: main, w: main, k: COUNT) -> Any:
        found = functions[0](x, w, k)
        return found, (functions[1](w, x, k - 1) * 2.0 if several else found)

    return model, one


def _circles(calls: list[list[int]], without: int) -> bool:
    """Whether the other functions that the first one leads to lead back to themselves."""
    left = {n: {m for m in found if m != without} for n, found in enumerate(calls) if n != without}
    while free := [n for n, found in left.items() if not found & left.keys()]:
        for n in free:
            del left[n]
    return bool(left)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "first",
    [pytest.param(n, marks=pytest.mark.exhaustive if n else ()) for n in range(0, PROGRAMS, 20)],
)
def test_random_functions_that_call_each_other_equal_python_on_arrays(first: int) -> None:
    on_device, count = 0, examples(20, few=6)
    for seed in range(first, first + count):
        model, one = circle(seed)
        rng = np.random.default_rng(seed)
        compiled = explorer.compile(model, options=options(1 + seed % 2))
        on_device += compiled.executable.frames is None
        assert compiled.executable.frames is None or not one, seed
        for k in (0, 1, 4):
            x, w = rng.standard_normal((2, WIDE)).astype(np.float32)
            agree(compiled, model, {"x": x, "w": w, "k": np.array(k)})
    assert on_device >= count // 2


def kinds(tree: TaskTree) -> list[tuple[str, str, str]]:
    """What stands in the tree: kind, level, reason."""
    return [(tree.kind, tree.level, tree.reason), *(k for part in tree.parts for k in kinds(part))]


@explorer.function(result=VECTOR)
def ping(x: VECTOR, k: COUNT) -> Any:
    return x if k <= 0 else pong(x * 0.5, k - 1) + 1.0


@explorer.function(result=VECTOR)
def pong(x: VECTOR, k: COUNT) -> Any:
    return xp.tanh(x) if k <= 0 else ping(x, k - 1) * 2.0


@explorer.trace
def both(x: VECTOR, k: COUNT) -> Any:
    return ping(x, k), pong(x, k)


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_every_schedule_gives_the_same(schedule: str) -> None:
    c = explorer.compile(both, options=explorer.Options(grinder=Grinder(schedule)), check=True)
    assert (c.executable.frames is not None) == (schedule in ("host", "eager"))
    x = np.linspace(-1, 2, WIDE).astype(np.float32)
    for k in (0, 1, 2, 9):
        agree(c, both, {"x": x, "k": np.array(k)})


@explorer.function(result=VECTOR)
def never(x: VECTOR, k: COUNT) -> Any:
    return ever(x, k)


@explorer.function
def ever(x: VECTOR, k: COUNT) -> Any:
    return never(x * 0.5, k)


@explorer.trace
def endless(x: VECTOR, k: COUNT) -> Any:
    return never(x, k)


def test_functions_that_call_each_other_without_end_are_stopped_by_name() -> None:
    c = explorer.compile(endless, options=options(1, 30))
    with pytest.raises(BoundError, match="never is called more than 30 calls deep"):
        c.run({"x": np.ones(WIDE, np.float32), "k": np.array(1)})


@explorer.function(result=VECTOR)
def left(x: VECTOR, k: COUNT) -> Any:
    return x if k <= 0 else left(x * 0.5, k - 2) + right(x, k - 1)


@explorer.function(result=VECTOR)
def right(x: VECTOR, k: COUNT) -> Any:
    return x + 1 if k <= 0 else right(x * 0.25, k - 2) - left(x, k - 1)


@explorer.trace
def knotted(x: VECTOR, k: COUNT) -> Any:
    return left(x, k)


def test_where_none_can_stand_for_all_python_follows_them_and_the_tree_says_why() -> None:
    c = explorer.compile(knotted, options=options(1))
    assert c.executable.frames is not None
    x = np.linspace(-1, 2, WIDE).astype(np.float32)
    for k in (0, 1, 5):
        agree(c, knotted, {"x": x, "k": np.array(k)})
    tree = c.program.decisions.tasks
    assert tree is not None
    whys = {reason for kind, _, reason in kinds(tree) if kind == "library"}
    end = "left and right call each other, and more than one of them itself"
    assert len(whys) == 2 and all(why.endswith(end) for why in whys)


@explorer.function
def scaled(x: tensor("float32", "m", "n")) -> Any:
    return x / x.shape[0] + (x if x.sum() > 0 else -x)


@explorer.trace
def of_three_shapes(x: tensor("float32", "batch", 3)) -> Any:
    doubled = xp.concatenate([x, x])
    for _ in range(3):
        x = scaled(scaled(x))
    return scaled(doubled), x, scaled(xp.ones((2, 2), "float32"))


def test_a_function_of_its_own_symbols_speaks_of_its_callers_wherever_it_is_called() -> None:
    c = explorer.compile(of_three_shapes, check=True)
    assert c.executable.frames is None
    tree = c.program.decisions.tasks
    assert tree is not None and {level for _, level, _ in kinds(tree)} == {"device"}
    for batch in (1, 2, 5):
        x = np.random.default_rng(batch).standard_normal((batch, 3)).astype(np.float32)
        agree(c, of_three_shapes, {"x": x})


SCALAR, ROW = tensor("float32"), tensor("float32", "n")


def shrinking(seed: int) -> Any:
    """A random function, or two that call each other, over rows whose number changes from call to
    call: a part of them, or more.
    """
    rnd = Random(seed)
    parts = [
        lambda x: x[1:],
        lambda x: x[: x.shape[0] // 2],
        lambda x: x[::2],
        lambda x: xp.concatenate([x, x[:1]]),
    ]
    count = rnd.choice([1, 2])
    chosen = [rnd.choice(parts) for _ in range(count)]
    twice = rnd.random() < 0.3
    functions: list[Any] = []

    def written(n: int) -> Any:
        @explorer.function(result=SCALAR)
        def f(x: ROW, k: COUNT) -> Any:
            if k <= 0:
                return x.sum() * (n + 1)
            if x.shape[0] < 2:
                return x.sum() - 1.0
            other = functions[(n + 1) % count]
            found = other(chosen[n](x), k - 1)
            return found + (other(x, k - 2) if twice else x[0]) * 0.5

        return f

    functions += [written(n) for n in range(count)]

    @explorer.trace
    def model(x: tensor("float32", "rows"), k: COUNT) -> Any:
        return functions[0](x * 0.5, k)

    return model


@pytest.mark.exhaustive
def test_calls_of_shapes_that_change_equal_python_on_arrays() -> None:
    for seed in range(12):
        model = shrinking(seed)
        c = explorer.compile(model, options=options(1 + seed % 2))
        for rows in (1, 2, 7):
            x = np.random.default_rng(seed).standard_normal(rows).astype(np.float32)
            for k in (0, 3):
                agree(c, model, {"x": x, "k": np.array(k)})


@explorer.function(result=VECTOR)
def narrowing(x: VECTOR, k: COUNT) -> Any:
    return x if k <= 0 else narrowing(x[1:], k - 1)


@explorer.function(result=VECTOR)
def widening(x: VECTOR, k: COUNT) -> Any:
    return x if k <= 0 else widening(x.astype("float64"), k - 1)


@explorer.function
def unsaid(x: VECTOR, k: COUNT) -> Any:
    return x if k <= 0 else unsaid_too(x, k - 1)


@explorer.function
def unsaid_too(x: VECTOR, k: COUNT) -> Any:
    return unsaid(x, k - 1)


REFUSED = [
    (narrowing, ShapeError, "narrowing: the argument 'x' must be 5 and is 4"),
    (widening, DtypeError, r"widening: the argument 'x' must be float32\[5\] and is float64"),
    (unsaid, TraceError, "'unsaid' calls itself, so its result must be declared"),
]


@pytest.mark.parametrize("function, error, sentence", REFUSED)
def test_a_call_that_does_not_fit_is_one_sentence(function: Any, error: Any, sentence: str) -> None:
    @explorer.trace
    def model(x: VECTOR, k: COUNT) -> Any:
        return function(x, k)

    with pytest.raises(error, match=sentence) as told:
        explorer.compile(model)
    assert told.value.try_
    assert "test_mutual_recursion.py:" in told.value.sentence and "\n" not in told.value.sentence
