"""Exercises on policies of schedules (chapter 06) and of memory (chapter 10)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from math import prod
from random import Random
from typing import Any

import numpy as np
import sympy

import explorer.np as enp
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile
from explorer.course.exercise import Check, Exercise, require
from explorer.course.replay import receive_dims, send_dims
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.memory.plan import Options as Memory
from explorer.memory.storage_pool import Free, is_enough
from explorer.process.user_code import shown
from explorer.rammer import Facts, Placement, ROperator, Share, VDevice, schedule
from explorer.rammer import Options as Rammer

Task = tuple[str, int, float]  # an operator's name, its tasks, and the us of each
Shares = list[list[tuple[int, ...]]]  # the fields of the shares of each program


def _facts(tasks: Sequence[Task], units: int) -> Facts:
    return Facts(tuple(ROperator(*task) for task in tasks), VDevice(units=units))


def _shares_of(placement: Placement) -> Shares:
    """Return the shares of a placement as numbers."""
    return [
        [tuple(map(int, (s.operator, s.unit, s.first, s.last, s.kernel))) for s in program]
        for program in placement.programs
    ]


def _placement_of(sent: Any) -> Placement:
    """Return the placement of such numbers."""
    is_valid = isinstance(sent, list) and all(
        isinstance(program, list)
        and all(
            isinstance(share, tuple) and len(share) == 5 and all(type(n) is int for n in share)
            for share in program
        )
        for program in sent
    )
    require(is_valid, "the placement cannot be read")
    return Placement(tuple(tuple(Share(*share) for share in program) for program in sent))


def _record_placement(answer: Any, tasks: list[Task], units: int) -> Shares:
    placement = answer(_facts(tasks, units))
    return _shares_of(placement)


def _check_bound(answer: Any, tasks: Sequence[Task], units: int) -> None:
    facts = _facts(tasks, units)
    placement = _placement_of(answer.run(_record_placement, list(tasks), units))

    def earliest(facts: Facts) -> Placement:  # errors name it
        return placement

    total = schedule(facts, Rammer(policy=earliest)).wall.total_us
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
    _check_bound(answer, [(f"op{n}", 1, float(us)) for n, us in enumerate(times)], 4)


def _check_random_operators(answer: Any, seed: int) -> None:
    rng = Random(seed)
    for units in range(2, 6):  # as many tasks for each unit would give all long ones to one
        first = rng.randrange(units)
        long = [n % units == first for n in range(6 * units)]
        _check_bound(answer, [(f"op{n}", 1, 9.0 if m else 1.0) for n, m in enumerate(long)], units)
        # An operator with a task more than all cores can take in turn, and short ones after it:
        # all would avoid its first core if it had all of its work added for each task.
        count = 2 * units + 1
        short = [(f"op{n}", 1, 1.0) for n in range(1, 1 + count * (units - 1))]
        _check_bound(answer, [("op0", count, 1.0), *short], units)
    for _ in range(10):
        tasks = [
            (f"op{n}", rng.randint(1, 5), float(rng.randint(1, 9)))
            for n in range(rng.randint(1, 12))
        ]
        _check_bound(answer, tasks, rng.randint(1, 5))


LAID_MODEL = "zoo:small_nerf"


def _wall_of(policy: Any) -> Any:
    options = Options(rammer=Rammer(policy=policy), registered=False)
    return compile(LAID_MODEL, options=options, until="planned").planned_wall()


def _record_placements(answer: Any) -> list[Shares]:
    """Return every placement that a policy gives while a model is planned."""
    placements: list[Shares] = []

    def recording(facts: Facts) -> Placement:
        placement = answer(facts)
        if isinstance(placement, Placement):
            placements.append(_shares_of(placement))
        return placement  # type: ignore[no-any-return]  # the compiler refuses another value

    _wall_of(recording)
    return placements


def _check_zoo_model(answer: Any, seed: int) -> None:
    """Check in the pipeline that the plan respects every dependency of a real model."""
    recorded = answer.run(_record_placements)
    require(isinstance(recorded, list), "the placements cannot be read")
    placements = list(map(_placement_of, recorded))

    def earliest(facts: Facts) -> Placement:
        require(bool(placements), f"{LAID_MODEL}: a wall has no placement")
        return placements.pop(0)

    require(
        bool(_wall_of(earliest).bricks) and not placements,
        f"the schedule of {LAID_MODEL} has no tasks",
    )


WALL = Exercise(
    name="wall",
    chapter="06_schedules",
    title="A policy that leaves no core idle",
    goal="Write a policy `earliest(facts)`: each task goes to the core that is free first. If no "
    "operator reads another, the wall is at most the total work divided by the number of "
    "cores, plus one task (Graham 1966). Each of `facts.operators` has its number of `tasks`, "
    "of `task_us` each. A `Placement` has a tuple of shares for each rProgram: one is enough.",
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
        "Store the times at which each core is free in a list, and add `operator.task_us` to one "
        "of them.",
        "`Share(operator, unit, first, last)` stands for tasks first to last - 1; a Placement "
        "here has one program.",
    ),
    checks=(
        Check("twenty tasks on four cores", 1, _check_twenty_tasks),
        Check("random operators, within Graham's bound", 2, _check_random_operators),
        Check("a real model is scheduled by it", 2, _check_zoo_model, True),
    ),
    exit_question="What does this policy ignore if operators do read each other?",
    policy_of="rammer",
    own_answers=(
        "explorer.rammer.wavefront:wavefront",
        "explorer.rammer.wavefront:op_by_op",
        "explorer.rammer.critical_path:critical_path",
        "explorer.rammer.weight_stationary:weight_stationary",
        "explorer.rammer.published_gangs:gang",
    ),
)


N, M = symbol("n"), symbol("m")
ENV = ShapeEnv((SymbolBound("n", 1), SymbolBound("m", 1, 64)))
WIDTHS = (8, 16, 16, 8, 4, 16, 8)  # row sizes of the values of a chain
CHAIN_SIZES = (1, 7, 32)


def _free_buffers(sizes: list[Dim]) -> tuple[Free, ...]:
    return tuple(Free(n, size, f"s{n}", f"v{n}", n) for n, size in enumerate(sizes))


def _number_of(choice: Any, free: Sequence[Free]) -> int | str | None:
    """Return the number of a choice among the free buffers, or its text."""
    return choice if choice is None else free.index(choice) if choice in free else shown(choice)


def _send_size(size: Dim) -> list[str]:
    """Return the factors of a size as texts: the text of a product would be multiplied out."""
    return send_dims(size.args if isinstance(size, sympy.Mul) else (size,))


def _record_choice(answer: Any, *sent: list[str]) -> int | str | None:
    """Return the choice of an answer for sizes by their factors, the needed one first."""
    needed, *sizes = (prod(receive_dims(factors)) for factors in sent)
    free = _free_buffers(sizes)
    return _number_of(answer(needed, free, ENV), free)


def _check_choice(answer: Any, needed: Dim, sizes: list[Dim]) -> None:
    free = _free_buffers(sizes)
    enough = [f for f in free if is_enough(needed, f.bytes, ENV)]
    least = min((ENV.hint(f.bytes) for f in enough), default=None)
    sent = answer.run(_record_choice, *map(_send_size, (needed, *sizes)))
    case = f"for {needed} bytes, of {', '.join(map(str, sizes)) or 'none'}"
    is_valid = sent is None or (type(sent) is int and 0 <= sent < len(free))
    require(is_valid, f"{case}: {sent!r} is none of the free buffers")
    got = None if sent is None else free[sent]
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
        return rng.randint(1, 6) * 4 * rng.choice((1, 1, N, M, N * M, N + 1, N * (M + 1)))

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


Question = tuple[str, ...]  # the dims that are needed and those of the free buffers, as texts


def _record_choices(answer: Any, seed: int) -> list[tuple[Question, int | str | None]]:
    """Return every choice of a memory policy while a chain is planned for some sizes."""
    choices: list[tuple[Question, int | str | None]] = []

    def recording(needed: Any, free: Any, env: Any) -> Any:
        choice = answer(needed, free, env)
        choices.append((_question(needed, free), _number_of(choice, free)))
        return choice

    _planned_bytes(_compile_chain(seed, recording, "planned"))
    return choices


def _question(needed: Dim, free: Sequence[Free]) -> Question:
    return tuple(send_dims((needed, *(f.bytes for f in free))))


def _compile_chain(seed: int, policy: Any, until: str = "emitted") -> Any:
    options = Options(memory=Memory(policy=policy), registered=False)
    return compile(_chain(seed), options=options, until=until)


@cache
def _chain_by_equality() -> Any:
    return _compile_chain(0, "storages")


def _planned_bytes(c: Any) -> list[int]:
    """Return the bytes of a chain for some sizes."""
    return [c.memory({"n": n}).planned_bytes for n in CHAIN_SIZES]


def _check_in_pipeline(answer: Any, seed: int) -> None:
    """Check the answer as the memory policy: bytes at most as with equality proofs, same values."""
    rng = np.random.default_rng(seed)
    # Other weights, so that no plan in a cache answers for the policy; never the seed itself.
    number = int(rng.integers(1 << 31))
    choices = dict(answer.run(_record_choices, number))

    def choose(needed: Any, free: Any, env: Any) -> Any:
        choice = choices.get(_question(needed, free), "nothing")
        is_valid = choice is None or (type(choice) is int and 0 <= choice < len(free))
        require(is_valid, f"for {needed} bytes {choice!r} is none of the free buffers")
        return None if choice is None else free[choice]

    own, equal = _compile_chain(0, choose), _chain_by_equality()
    for n, got, most in zip(CHAIN_SIZES, _planned_bytes(own), _planned_bytes(equal), strict=True):
        require(got <= most, f"n = {n}: {got} bytes are planned, and {most} by equality alone")
        inputs = {"x": rng.normal(size=(n, WIDTHS[0])).astype(np.float32)}
        expected, actual = equal.run(inputs), own.run(inputs)
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
    "of an expression; None means unbounded. `simplify` of `explorer.ir.dims` multiplies an "
    "expression out, as in section 5. The compiler calls the policy for every value of a "
    "program and checks its choice.",
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
        "4*n*(m + 1) - 4*n*m contains n twice, so its bounds say nothing: its normal form by "
        "`simplify` is 4*n, whose least value is 4.",
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
    own_answers=("explorer.memory.storage_pool:is_enough", "explorer.memory.storage_pool:at_most"),
)
