"""Warm-ups of chapter 07."""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Any

import numpy as np

from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile
from explorer.course.exercise import Check, Exercise, Wrong, require
from explorer.course.exercises.own_operators import LOWERED, graded_operator
from explorer.course.replay import Replay, send_program
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor
from explorer.ops.elementwise import call, unary


def _value(answer: Any) -> Any:
    return answer


def _check_strips(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for _ in range(20):
        tile = draw.randint(2, 9)
        n = draw.randint(1, 4) * tile + draw.randint(1, tile - 1)
        got = answer(n, tile)
        require(isinstance(got, list), f"the answer is a list, and not {got!r}"[:200])
        lacking = sorted(set(range(n)) - set(got))
        require(not lacking, f"{n} elements in tiles of {tile}: {lacking} are not visited"[:200])
        beyond = sorted({i for i in got if i not in range(n)})
        require(not beyond, f"{n} elements in tiles of {tile}: {beyond} do not exist"[:200])
        require(
            got == list(range(n)),
            f"{n} elements in tiles of {tile}: {len(got)} visits, and each element needs one",
        )


STRIPS = Exercise(
    name="strips",
    chapter="07_code_generation",
    title="The bounds of a tiled loop",
    activity="fill in",
    minutes=3,
    goal="A loop over `n` elements becomes two loops: the outer one goes from tile to tile, and "
    "the inner one through the elements of a tile (*strip mining*). The last tile may be smaller. "
    "Fill in the blank: where does the inner loop end?",
    answer="visited",
    stub='''\
def visited(n, tile):
    """Return the elements in the order in which the two loops visit them."""
    elements = []
    for start in range(0, n, tile):
        for i in range(start, min(n, ...)):
            elements.append(i)
    return elements
''',
    solution='''\
def visited(n, tile):
    """Return the elements in the order in which the two loops visit them."""
    elements = []
    for start in range(0, n, tile):
        for i in range(start, min(n, start + tile)):
            elements.append(i)
    return elements
''',
    hints=("The tile that begins at `start` has `tile` elements, unless the loop ends before.",),
    checks=(Check("random loops", 1, _check_strips),),
)


Chunks = list[list[int]]  # the values of each chunk, by thread
MOST_BARRIERS = 1000


def _run_block(answer: Any, chunks: Chunks, order_seed: int) -> Chunks:
    """Run the threads of a block in random orders between barriers; return their results."""
    draw, size = Random(order_seed), len(chunks[0])
    shared: list[int | None] = [None] * (2 * size)
    results: list[list[int]] = [[] for _ in range(size)]
    threads = []
    for n in range(size):
        own = [chunk[n] for chunk in chunks]
        thread = answer(n, size, own, shared, results[n])
        require(
            isinstance(thread, Generator),
            "a thread is a generator: it needs a `yield` for each barrier",
        )
        threads.append(thread)
    for _ in range(MOST_BARRIERS):
        draw.shuffle(order := list(range(size)))
        waits = {n for n in order if next(threads[n], "ended") != "ended"}
        if not waits:
            return [[r[c] if c < len(r) else -1 for r in results] for c in range(len(chunks))]
        ended = set(order) - waits
        if ended:
            raise Wrong(
                f"thread {min(ended)} has ended, and thread {min(waits)} waits at a barrier that "
                "all threads must reach"
            )
    raise Wrong(f"a thread waits at more than {MOST_BARRIERS} barriers")


def _check_mirror(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for _ in range(10):
        size, count = draw.randint(2, 8), draw.randint(2, 5)
        values = draw.sample(range(1000), size * count)
        chunks = [values[c * size : (c + 1) * size] for c in range(count)]
        got = answer.run(_run_block, chunks, draw.randrange(1 << 30))
        for c, chunk in enumerate(chunks):
            expected = chunk[::-1]
            result = got[c] if isinstance(got, list) and len(got) == count else None
            require(
                result == expected,
                f"{size} threads, chunk {c} of {count}: the values are {chunk}, mirrored they are "
                f"{expected}, and the threads have {result}",
            )


_MIRROR = '''\
def mirror(thread, size, own, shared, result):
    """Reverse each chunk: `own` has this thread's value of each of them."""
    for value in own:
        shared[thread] = value
        yield  # a barrier
        result.append(shared[size - 1 - thread])
'''

MIRROR = Exercise(
    name="mirror",
    chapter="07_code_generation",
    title="Threads that mirror a row",
    activity="find the fault",
    minutes=8,
    goal="A block of `size` threads reverses several chunks of `size` values, one after another. "
    "Each thread has its own value of each chunk, and must append to `result` the value of the "
    "thread opposite. Threads exchange values through `shared` (a list of `2 * size` elements) and "
    "wait at a barrier by `yield`. Between two barriers, they run in any order. There is one "
    "fault: find it and correct it.",
    answer="mirror",
    stub=_MIRROR,
    solution=_MIRROR + "        yield  # all have read: the next chunk may be written\n",
    hints=(
        "Let thread 0 run as far as it can, then thread 1. What has become of the first chunk?",
        "A race needs two accesses of one element, one of them a write, with no barrier between. "
        "Look at two iterations of the loop.",
    ),
    checks=(Check("random orders of the threads", 2, _check_mirror),),
)


DISTANCES = (4, 2, 1)
LANES, LANE = 8, 6


def _check_butterfly(answer: Any, seed: int) -> None:
    table = answer.run(_value)
    require(
        isinstance(table, dict) and set(table) == set(DISTANCES),
        "`butterfly` is a dict with the lanes after each exchange",
    )
    sums = [{lane} for lane in range(LANES)]
    for distance in DISTANCES:
        sums = [sums[lane] | sums[lane ^ distance] for lane in range(LANES)]
        right, got = sorted(sums[LANE]), table[distance]
        is_list = isinstance(got, (tuple, list)) and all(type(n) is int for n in got)
        require(
            is_list and sorted(got) == right,
            f"after the exchange with lane {LANE ^ distance}, the sum of lane {LANE} has the "
            f"elements of {len(right)} lanes, and not of {got!r}"[:300],
        )


_BUTTERFLY = """\
distances = (4, 2, 1)
lanes = (..., ..., ...)  # a tuple of lane numbers after each exchange
butterfly = dict(zip(distances, lanes))
"""

BUTTERFLY = Exercise(
    name="butterfly",
    chapter="07_code_generation",
    title="Sums that pass from lane to lane",
    activity="predict",
    minutes=8,
    goal="Eight lanes hold one element each, and sum them by `x += shfl_xor(x, distance)`: lane "
    "`n` adds the sum of lane `n ^ distance` (the numbers differ in one bit). The distances are 4, "
    "then 2, then 1. The elements of which lanes are in the sum of lane 6 after each exchange, its "
    "own included?",
    answer="butterfly",
    stub=_BUTTERFLY,
    solution=_BUTTERFLY.replace(
        "(..., ..., ...)", "((2, 6), (0, 2, 4, 6), (0, 1, 2, 3, 4, 5, 6, 7))"
    ),
    hints=("6 is 110 in binary. Flip one bit, and add what that lane has summed so far.",),
    checks=(Check("three exchanges", 2, _check_butterfly),),
)


def _reference(attributes: Any, arrays: Any) -> np.ndarray:
    return np.asarray(_log_cosh(arrays[0]).astype(arrays[0].dtype))


def _log_cosh(x: np.ndarray) -> np.ndarray:
    wide = np.abs(x.astype(np.float64))
    return np.asarray(wide + np.log1p(np.exp(-2 * wide)) - np.log(2))


def _trusted_body(site: Any, x: Any, dtype: Any) -> Any:
    size = call("abs", x)
    small = call("exp", call("mul", size, -2.0, dtype=dtype))
    return call("add", size, call("log", call("add", small, 1.0, dtype=dtype)))


def _record_body(answer: Any) -> Any:
    """Return the loops of an operator with the answer as its body."""
    with graded_operator(unary("GradedLogCosh", answer, _reference)) as operator:
        model = load(trace(lambda x: operator(x))(tensor("float32", "n")))
        c = compile(model, options=Options(registered=False), until="legalized")
    return send_program(next(s.after for s in c.snapshots if s.name == LOWERED))


def _check_log_cosh(answer: Any, seed: int) -> None:
    loops = Replay(answer.run(_record_body))
    options = Options(passes=((LOWERED, loops),), registered=False)
    with graded_operator(unary("GradedLogCosh", _trusted_body, _reference)) as operator:
        model = load(trace(lambda x: operator(x))(tensor("float32", "n")))
        c = compile(model, options=options)
    rng = np.random.default_rng(seed)
    values = np.concatenate(
        (np.array([0.0, 300.0, -300.0]), rng.uniform(-4, 4, 20), rng.uniform(-200, 200, 20))
    ).astype(np.float32)
    got, expected = next(iter(c.run(values).values())), _log_cosh(values)
    for x, y, right in zip(values.tolist(), got.tolist(), expected.tolist(), strict=True):
        is_near = bool(abs(y - right) <= 1e-4 + 1e-5 * abs(right))
        require(is_near, f"at x = {x:g} the loops compute {y:g}, and log(cosh(x)) is {right:.6g}")


_LOG_COSH = '''\
from explorer.ops.elementwise import call


def log_cosh(site, x, dtype):
    """Return the expression of one element, log(cosh(x)), without overflow."""
'''

LOG_COSH = Exercise(
    name="log_cosh",
    chapter="07_code_generation",
    title="One element of an operator",
    activity="write",
    minutes=15,
    goal="Write the expression of one element of the operator log(cosh(x)), a smooth absolute "
    'value. Expressions are calls of scalar functions: `call("add", x, 1.0, dtype=dtype)` is `x + '
    '1`. You need "abs", "mul", "exp", "add" and "log". As cosh overflows for large `x`, compute '
    "it as |x| + log(1 + exp(-2 |x|)) - log(2). The check compiles the loops and runs them.",
    answer="log_cosh",
    stub=_LOG_COSH + "    raise NotImplementedError\n",
    solution=_LOG_COSH
    + """\
    size = call("abs", x)
    small = call("exp", call("mul", size, -2.0, dtype=dtype))
    log = call("log", call("add", small, 1.0, dtype=dtype))
    return call("add", call("add", size, log), -0.6931472, dtype=dtype)
""",
    hints=(
        "Write an expression for each part, as lines of their own: |x|, then exp(-2 |x|), then the "
        "logarithm.",
        "Pass `dtype=dtype` to each call that has a number among its arguments.",
    ),
    checks=(Check("the loops, compiled and run", 3, _check_log_cosh),),
)

WARM_UPS = (STRIPS, MIRROR, BUTTERFLY, LOG_COSH)
