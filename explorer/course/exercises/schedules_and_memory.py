"""Exercises on policies of schedules (chapter 06) and of memory (chapter 10)."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile
from explorer.course.exercise import Check, Exercise, require
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.memory.plan import Options as Memory
from explorer.memory.storage_pool import Free, is_enough
from explorer.passes.random_inputs import random_inputs
from explorer.rammer import Facts, ROperator, VDevice, schedule
from explorer.rammer import Options as Rammer


def _check_bound(answer: Any, facts: Facts) -> None:
    total = schedule(facts, Rammer(policy=answer)).wall.total_us
    work = sum(o.work_us for o in facts.operators)
    longest = max(o.task_us for o in facts.operators)
    most = work / facts.device.units + longest
    require(
        total <= most + 1e-9,
        f"{len(facts.operators)} operators on {facts.device.units} cores take {total:g} us: a core "
        f"was idle while there was work, or {most:g} us had been enough",
    )


def _check_twenty_tasks(answer: Any, seed: int) -> None:
    times = (7, 5, 5, 4, 4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1)
    tasks = tuple(ROperator(f"op{n}", 1, float(us)) for n, us in enumerate(times))
    _check_bound(answer, Facts(tasks, VDevice(units=4)))


def _check_random_operators(answer: Any, seed: int) -> None:
    rng = Random(seed)
    for _ in range(20):
        operators = tuple(
            ROperator(f"op{n}", rng.randint(1, 5), float(rng.randint(1, 9)))
            for n in range(rng.randint(1, 12))
        )
        _check_bound(answer, Facts(operators, VDevice(units=rng.randint(1, 5))))


def _check_zoo_model(answer: Any, seed: int) -> None:
    """Check in the pipeline that the plan respects every dependency of a real model."""
    c = compile("zoo:small_nerf", options=Options(rammer=Rammer(policy=answer)))
    wall = c.planned_wall()
    require(bool(wall.bricks), "the schedule of zoo:small_nerf has no tasks")


WALL = Exercise(
    name="wall",
    chapter="06_schedules",
    title="A policy that leaves no core idle",
    goal="Write a policy `earliest(facts)`: each task goes to the core that is free first. If no "
    "operator reads another, the wall is at most the total work divided by the number of "
    "cores, plus one task (Graham 1966).",
    answer="earliest",
    stub='''\
from explorer.rammer import Facts, Placement, Share


def earliest(facts: Facts) -> Placement:
    """Place each task on the core that is free first."""
    raise NotImplementedError
''',
    solution='''\
from explorer.rammer import Facts, Placement, Share


def earliest(facts: Facts) -> Placement:
    """Place each task on the core that is free first."""
    free = [0.0] * facts.device.units
    shares = []
    for number, operator in enumerate(facts.operators):
        for task in range(operator.tasks):
            unit = free.index(min(free))
            free[unit] += operator.task_us
            shares.append(Share(number, unit, task, task + 1))
    return Placement((tuple(shares),))
''',
    hints=(
        "`round_robin` of section 6 assigns tasks without regard to their length: start from it.",
        "Keep a list of the times at which each core is free, and add `operator.task_us` to one "
        "of them.",
        "`Share(operator, unit, first, last)` stands for tasks first to last - 1; a Placement "
        "here has one program.",
    ),
    checks=(
        Check("twenty tasks on four cores", 1, _check_twenty_tasks),
        Check("random operators, within Graham's bound", 2, _check_random_operators),
        Check("a real model is laid by it", 2, _check_zoo_model, True),
    ),
    exit_question="What does this policy ignore if operators do read each other?",
    policy_of="rammer",
)


N, M = symbol("n"), symbol("m")
ENV = ShapeEnv((SymbolBound("n", 1), SymbolBound("m", 1, 64)))
WIDTHS = (8, 16, 16, 8, 4, 16, 8)  # row sizes of the values of a chain


def _free_buffers(sizes: list[Dim]) -> tuple[Free, ...]:
    return tuple(Free(n, size, f"s{n}", f"v{n}", n) for n, size in enumerate(sizes))


def _check_choice(answer: Any, needed: Dim, sizes: list[Dim]) -> None:
    free = _free_buffers(sizes)
    enough = [f for f in free if is_enough(needed, f.bytes, ENV)]
    least = min((ENV.hint(f.bytes) for f in enough), default=None)
    got = answer(needed, free, ENV)
    case = f"for {needed} bytes, of {', '.join(map(str, sizes)) or 'none'}"
    require(got is None or got in free, f"{case}: {got!r} is none of the free buffers")
    if got is None:
        words = ", ".join(str(f.bytes) for f in enough)
        require(not enough, f"{case}: none is taken, and {words} is enough in every binding")
        return
    proved = got in enough
    require(proved, f"{case}: {got.bytes} is taken, which is not provably enough")
    require(
        ENV.hint(got.bytes) == least,
        f"{case}: {got.bytes} is taken, and a smaller one is enough",
    )


def _check_fixed_cases(answer: Any, seed: int) -> None:
    cases: tuple[tuple[Dim, list[Dim]], ...] = (
        (64, [32, 256, 128]),
        (8 * N, [4 * N, 16 * N, 8 * N]),
        (8 * N, [16 * N, 12 * N]),
        (4 * (2 * N), [8 * M, 8 * N]),
        (4 * N, [4 * M, 1000]),
        (4 * M, [4 * N, 200, 512, 256]),
        (4 * N * M, [4 * N, 4 * N * (M + 1)]),
        (16, [8 * N]),
        (8, []),
    )
    for needed, sizes in cases:
        _check_choice(answer, needed, sizes)


def _check_random_sizes(answer: Any, seed: int) -> None:
    rng = Random(seed)

    def size() -> Dim:
        return rng.randint(1, 6) * 4 * rng.choice((1, 1, N, M, N * M, N + 1))

    for _ in range(60):
        _check_choice(answer, size(), [size() for _ in range(rng.randint(0, 5))])


def _chain(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    weights = [rng.standard_normal(pair).astype(np.float32) / 4 for pair in pairwise(WIDTHS)]

    def model(x: Any) -> Any:
        for w in weights:
            x = enp.tanh(x @ w)
        return x

    return load(trace(model)(tensor("float32", "n", WIDTHS[0])))


def _check_in_pipeline(answer: Any, seed: int) -> None:
    """Check the answer as the memory policy: bytes at most as with equality proofs, same values."""
    model = _chain(seed)
    mine = compile(model, options=Options(memory=Memory(policy=answer), registered=False))
    equal = mine.with_options(memory=Memory(policy="storages"))
    for n in (1, 7, 32):
        sizes = {"n": n}
        got, most = (c.memory(sizes).planned_bytes for c in (mine, equal))
        require(got <= most, f"n = {n}: {got} bytes are planned, and {most} by equality alone")
        inputs = random_inputs(model.program, sizes)
        expected, actual = equal.run(inputs), mine.run(inputs)
        same = all(np.array_equal(expected[name], actual[name]) for name in expected)
        require(same, f"n = {n}: the answers are others")


_FREE_STORAGE_HEAD = '''\
def choose(needed, free, env):
    """Return the free buffer for a value of `needed` bytes; None for a fresh one."""
'''

FREE_STORAGE = Exercise(
    name="free_storage",
    chapter="10_dynamic_shapes",
    title="A buffer that is provably large enough",
    goal="Values share buffers one after the other, and their sizes are expressions. Write a "
    "memory policy `choose(needed, free, env)`. Each of the `free` buffers has its `.bytes`. "
    "Of those with at least `needed` bytes *in every binding*, return one with the fewest "
    "bytes by `env.hint`; return None if there is none. `env.equal(a, b)` is True if two "
    "sizes are proved to be equal. `env.bounds(a)` returns the least and the greatest value "
    "of an expression; None means unbounded. The compiler calls the policy for every value "
    "of a program and checks its choice.",
    answer="choose",
    stub=_FREE_STORAGE_HEAD + "    raise NotImplementedError\n",
    solution="from explorer.ir.dims import simplify\n\n\n"
    + _FREE_STORAGE_HEAD
    + """\
    enough = [f for f in free if env.bounds(simplify(f.bytes - needed))[0] >= 0]
    return min(enough, key=lambda f: env.hint(f.bytes), default=None)
""",
    hints=(
        "A hint is one binding, but a proof covers all of them. Rank buffers by `env.hint`, but "
        "never accept one by it.",
        "A buffer is large enough if the least value of `buffer.bytes - needed` is not below 0.",
        "4*n*(m + 1) - 4*n*m contains n twice, so its bounds say nothing: multiply it out first, "
        "with `simplify` of `explorer.ir.dims`.",
    ),
    checks=(
        Check("nine choices", 1, _check_fixed_cases),
        Check("random sizes", 1, _check_random_sizes),
        Check("as the memory policy of a program", 1, _check_in_pipeline),
        Check("other sizes", 1, lambda a, s: _check_random_sizes(a, s + 1), True),
    ),
    exit_question="A buffer that is too small could grow. For which programs is that worse than a "
    "new buffer?",
    policy_of="memory",
)
