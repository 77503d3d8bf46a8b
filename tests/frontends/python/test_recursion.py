"""Recursive Python functions, compiled, agree with themselves on NumPy's arrays."""

from __future__ import annotations

import signal
from collections.abc import Callable
from random import Random
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import explorer
import explorer.np as xp
from explorer import tensor
from explorer.errors import BoundError, TooLarge
from explorer.frontends import zoo
from explorer.grinder import SCHEDULES, on_host
from explorer.grinder import Options as GrinderOptions
from explorer.ir.decisions.control import TaskTree
from explorer.rammer import Options as RammerOptions
from explorer.runtime.executable import Executable
from tests.benchmarks.recursive_autoencoder import BY_NUMPY, NAME, balanced, random_tree
from tests.examples import examples

QUICK, PROGRAMS = 25, 300
WIDE = 5
VECTOR, COUNT = tensor("float32", WIDE), tensor("int64")
MATRIX = np.random.default_rng(1).standard_normal((WIDE, WIDE)).astype(np.float32) / 3
Expression = Callable[[list[Any], Any], Any]
STEPS: tuple[Expression, ...] = (
    lambda values, pick: xp.tanh(pick(values)),
    lambda values, pick: pick(values) * 0.5 + pick(values),
    lambda values, pick: pick(values) - pick(values).mean(),
    lambda values, pick: MATRIX @ pick(values),
    lambda values, pick: xp.concatenate([pick(values)[2:], pick(values)[:2]]),
)


def options(threads: int, depth: int = 40) -> explorer.Options:
    return explorer.Options(
        grinder=GrinderOptions(depth=depth), rammer=RammerOptions(threads=threads)
    )


def recursion(seed: int) -> Any:
    """A random function over (x, w, k) that calls itself with k - 1 or k - 2, once or twice, until
    its count or its data say that it is enough.
    """
    rnd = Random(seed)
    data_too = rnd.random() < 0.5
    shape = [rnd.choice(["step", "call", "step"]) for _ in range(rnd.randint(1, 4))]
    shape = [*shape, "call", "step"][-5:]
    while shape.count("call") > 2:
        shape.remove("call")
    steps = [rnd.randrange(len(STEPS)) for _ in shape]
    less = [rnd.choice([1, 1, 2]) for _ in shape]
    given = [rnd.random() for _ in range(200)]
    same = rnd.random() < 0.3  # w is what every call is given

    def first(known: list[Any]) -> Any:
        return known[0]

    def deeper(x: Any, w: Any, k: Any) -> Any:
        drawn = iter(given)
        values = [x, w]

        def pick(known: list[Any]) -> Any:
            return known[int(next(drawn) * len(known))]

        for kind, step, by in zip(shape, steps, less, strict=True):
            if kind == "call":
                values.append(f(pick(values), w if same else pick(values), k - by))
            else:
                values.append(STEPS[step](values, pick))
        return values[-1] + pick(values) * 0.25

    @explorer.function(result=VECTOR)
    def f(x: VECTOR, w: VECTOR, k: COUNT) -> Any:
        if k <= 0:
            return STEPS[steps[0]]([x, w], first)
        if data_too and x[1] > 1.5:
            return x - w
        return deeper(x, w, k)

    @explorer.trace
    def model(x: VECTOR, w: VECTOR, k: COUNT) -> Any:
        return f(x, w, k), f(w, x, k - 1) * 2.0

    return model


def agree(compiled: Any, model: Any, inputs: dict[str, Any]) -> None:
    wanted = model(**inputs)
    found = compiled.run(inputs).values()
    for a, b in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(n, marks=pytest.mark.exhaustive if n >= QUICK else ())
        for n in range(0, PROGRAMS, 25)
    ],
)
def test_random_recursions_equal_python_on_arrays(first: int) -> None:
    for seed in range(first, first + examples(25, few=8)):
        model = recursion(seed)
        rng = np.random.default_rng(seed)
        for threads in (1, 2):
            compiled = explorer.compile(model, options=options(threads))
            assert compiled.executable.frames is None
            for k in (0, 1, 4):
                x, w = rng.standard_normal((2, WIDE)).astype(np.float32)
                agree(compiled, model, {"x": x, "w": w, "k": np.array(k)})


@explorer.function(result=VECTOR)
def down(x: VECTOR, k: COUNT) -> Any:
    return x if k == 0 else down(x * 0.5, k - 1) + 1.0


@explorer.trace
def deep(x: VECTOR, k: COUNT) -> Any:
    return down(x, k)


@explorer.function(result=(VECTOR, COUNT))
def leaves(x: VECTOR, k: COUNT, least: COUNT) -> Any:
    """A tree that gives a value and how many leaves it has; its sides are of uneven depth."""
    if k <= least or (x[0] > 3.0 and k < 3):
        return x, least * 0 + 1
    a, n = leaves(x + 0.5, k - 1, least)
    b, m = leaves(a * 0.25, k - 2, least)
    if n > m:
        b = b - a
    return a + b, n + m


@explorer.trace
def counted(x: VECTOR, k: COUNT) -> Any:
    value, count = leaves(x, k, k * 0)
    return value, count


@explorer.function(result=VECTOR)
def swaying(x: VECTOR, k: COUNT) -> Any:
    """Calls itself in each trip of a loop, as often as its count says."""
    if k > 0:
        for i in range(k):
            x = swaying(x * 0.5 + i, k - 1) - 0.25 * x
    return x


@explorer.trace
def looping(x: VECTOR, k: COUNT) -> Any:
    return swaying(x, k)


def kinds(tree: TaskTree) -> list[tuple[str, str]]:
    """Calls of the tree and their levels."""
    own = [(tree.name, tree.level)] if tree.kind == "call" else []
    return own + [found for part in tree.parts for found in kinds(part)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("model", [deep, counted, looping])
def test_python_decides_around_calls(model: Any, threads: int) -> None:
    compiled = explorer.compile(model, options=options(threads))
    x = np.linspace(-1, 2, WIDE).astype(np.float32)
    for k in range(6):
        agree(compiled, model, {"x": x, "k": np.array(k)})
    tree = compiled.program.decisions.tasks
    assert tree is not None and tree.level == "device"
    levels = kinds(tree)
    assert len(levels) >= 2 and {level for _, level in levels} == {"device"}


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
@pytest.mark.parametrize("model", [deep, counted, looping])
def test_every_schedule_gives_the_same(model: Any, schedule: str) -> None:
    chosen = explorer.Options(grinder=GrinderOptions(schedule=schedule))
    compiled = explorer.compile(model, options=chosen)
    assert (compiled.executable.frames is not None) == (schedule in ("host", "eager"))
    x = np.linspace(-1, 2, WIDE).astype(np.float32)
    for k in (0, 1, 4):
        agree(compiled, model, {"x": x, "k": np.array(k)})


@pytest.mark.parametrize("threads", [1, 2])
def test_ten_thousand_calls_deep_end(threads: int) -> None:
    compiled = explorer.compile(deep, options=options(threads, 10_001))
    x = np.ones(WIDE, np.float32)
    (found,) = compiled.run({"x": x, "k": np.array(10_000)}).values()
    wanted = x.astype(np.float64)
    wanted = wanted * 0.5**10_000 + 10_000
    np.testing.assert_allclose(found, wanted)


def test_a_call_too_many_is_one_sentence_with_the_function_and_the_depth() -> None:
    compiled = explorer.compile(deep, options=options(2, 50))
    x = np.ones(WIDE, np.float32)
    for k in (50, -1, 49):
        if k == 49:
            agree(compiled, deep, {"x": x, "k": np.array(k)})
        else:
            with pytest.raises(BoundError, match="down is called more than 50 calls deep"):
                compiled.run({"x": x, "k": np.array(k)})


def test_a_stack_that_does_not_fit_is_refused_with_its_bytes_and_the_users_depth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("IRONWORKS_MEMORY", "2MiB")
    compiled = explorer.compile(deep, options=options(1, 1_000_000))
    with pytest.raises(TooLarge) as refused:
        compiled.run({"x": np.ones(WIDE, np.float32), "k": np.array(3)})
    frame = (
        compiled.with_options(grinder=GrinderOptions(depth=100)).executable.plan({}).placed.frames
    )
    needed = 1_000_000 * sum(f.frame_bytes for f in frame.values())
    assert "the stack of 'down', 1,000,000 calls deep" in refused.value.sentence
    assert refused.value.actual == f"{needed} bytes"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_recursion_within_a_second(threads: int) -> None:
    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    @explorer.trace
    def model(x: VECTOR, k: COUNT) -> Any:
        value, _ = leaves(x - 100.0, k, k * 0)
        return value

    compiled = explorer.compile(model, options=options(threads, 100))
    x = np.zeros(WIDE, np.float32)
    agree(compiled, model, {"x": x, "k": np.array(3)})
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        begin = perf_counter()
        with pytest.raises(KeyboardInterrupt):
            compiled.run({"x": x, "k": np.array(90)})
        assert perf_counter() - begin < 1.2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    agree(compiled, model, {"x": x, "k": np.array(3)})


@pytest.mark.parametrize("threads", [1, 2])
def test_a_recursive_autoencoder_over_trees(threads: int) -> None:
    compiled = explorer.compile(zoo.load(NAME), options=options(threads, 127))
    host = Executable(compiled.program, compiled.codes, compiled.device, on_host)
    assert compiled.executable.frames is None and host.frames is not None
    shape = compiled.model.inputs["leaf"].dims
    leaf = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    trees = [balanced(n) for n in (1, 3, 127)] + [random_tree(n, n) for n in (5, 31, 127)]
    for left, right in trees:
        inputs = {"left": left, "right": right, "leaf": leaf}
        (wanted,) = BY_NUMPY(**inputs).values()
        for run in (compiled.run, host.run):
            (found,) = run(inputs).values()
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


LINKS, LEAVES = tensor("int64", "n"), tensor("float32", "n", WIDE)


@explorer.function(result=tensor("float32", WIDE))
def encoded(node: COUNT, left: LINKS, right: LINKS, leaf: LEAVES) -> Any:
    if left[node] < 0:
        return leaf[node] + leaf.mean()
    a, b = encoded(left[node], left, right, leaf), encoded(right[node], left, right, leaf)
    return xp.tanh(a - b * 0.5) / (1 + left.shape[0])


NODE = tensor("int64", "nodes")


@explorer.trace
def any_tree(left: NODE, right: NODE, leaf: tensor("float32", "nodes", WIDE)) -> Any:
    return encoded(0, left, right, leaf) + encoded(left[0] * 0, left, right, leaf)


@explorer.function(result=tensor("float32", "b", 3))
def wavering(x: tensor("float32", "b", 3), k: COUNT) -> Any:
    return x if k <= 0 else wavering(x * 0.5, k - 1) + wavering(x + 1, k - 2) / x.shape[0]


@explorer.trace
def doubled(x: tensor("float32", "batch", 3), k: COUNT) -> Any:
    return wavering(xp.concatenate([x, x]), k)


@explorer.trace
def of_two_shapes(x: tensor("float32", "batch", 3), k: COUNT) -> Any:
    return wavering(xp.concatenate([x, x]), k), wavering(x, k)


@pytest.mark.parametrize("threads", [1, 2])
def test_shapes_in_symbols_are_those_of_the_call(threads: int) -> None:
    compiled = explorer.compile(any_tree, options=options(threads))
    assert compiled.executable.frames is None
    for nodes in (1, 3, 31, 7):
        left, right = (links[:nodes] for links in random_tree(nodes, nodes))
        leaf = np.random.default_rng(3).standard_normal((nodes, WIDE)).astype(np.float32)
        agree(compiled, any_tree, {"left": left, "right": right, "leaf": leaf})
    compiled = explorer.compile(doubled, options=options(threads))
    assert compiled.executable.frames is None
    for batch in (1, 2, 5):
        x = np.random.default_rng(4).standard_normal((batch, 3)).astype(np.float32)
        for k in (0, 1, 4):
            agree(compiled, doubled, {"x": x, "k": np.array(k)})
    for batch in (3, 9):
        frames = compiled.executable.plan({**compiled.hint, "batch": batch}).placed.frames
        assert max(f.frame_bytes for f in frames.values()) >= 2 * batch * 3 * 4


def test_a_function_that_is_called_with_two_shapes_is_followed_by_python() -> None:
    compiled = explorer.compile(of_two_shapes, options=options(2))
    assert compiled.executable.frames is not None
    x = np.random.default_rng(5).standard_normal((2, 3)).astype(np.float32)
    for k in (0, 1, 4):
        agree(compiled, of_two_shapes, {"x": x, "k": np.array(k)})
