"""Warm-ups of chapter 00."""

from __future__ import annotations

from functools import cache
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
from explorer.process.user_code import shown
from explorer.welder import Options as Welder

UNARY = ("exp", "tanh", "sqrt", "abs", "negative")


def _own(answer: Any) -> Any:
    """Return an answer that is a value."""
    return answer


def _check_operator_count(answer: Any, seed: int) -> None:
    draw = Random(seed)
    alike = [(f"node{n}", op) for n, op in enumerate(("Max", "MaxPool", "Relu", "PRelu"))]
    for kind in ("Max", "Relu"):
        got = answer(alike, kind)
        require(got == 1, f"of Max, MaxPool, Relu and PRelu 1 is of the kind {kind!r}, not {got!r}")
    for _ in range(6):
        names = [draw.choice(UNARY) for _ in range(draw.randint(1, 12))]

        def run(x: Any, names: Any = names) -> Any:
            for name in names:
                x = getattr(enp, name)(x)
            return x

        program = load(trace(lambda x, run=run: run(x))(tensor("float32", 3))).program
        sources = [(f"{s.op}_{n}", s.op) for n, s in enumerate(program.sources)]
        kinds = [op for _, op in sources]
        for kind in sorted({*kinds, "matmul"}):
            right, got = kinds.count(kind), answer(sources, kind)
            require(
                not isinstance(got, bool) and got == right,
                f"of {kinds} {right} are of the kind {kind!r}, not {shown(got)}",
            )


OPERATOR_COUNT = Exercise(
    name="operator_count",
    chapter="00_tour",
    title="Operators of a kind",
    activity="fill in",
    minutes=2,
    goal="`model.program.sources` lists the operators of a model. Here `sources` is a list of "
    "pairs `(name, op)`, one for each operator. Fill in the blank, so that the function returns "
    "how many of them are of a `kind`, for example `'Conv'`.",
    answer="operator_count",
    stub="def operator_count(sources, kind):\n    return sum(... for name, op in sources)\n",
    solution="def operator_count(sources, kind):\n"
    "    return sum(op == kind for name, op in sources)\n",
    hints=("In a sum, True counts as 1 and False as 0.",),
    checks=(Check("the operators of random models", 1, _check_operator_count),),
)


def _check_largest_error(answer: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, below = int(rng.integers(3, 9)), float(rng.integers(1, 8)) / 8
    reference = rng.integers(1, 9, size).astype(np.float32)
    for sign, where in ((-1, "below"), (1, "above")):
        outputs = reference.copy()
        outputs[rng.integers(size)] += np.float32(sign * below)
        _require_error(
            answer, outputs, reference, f"an output lies {below:g} {where} its reference"
        )
    for _ in range(8):
        shape = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 4))))
        reference = (rng.normal(size=shape) - rng.integers(0, 4)).astype(np.float32)
        outputs = (reference + 0.1 * rng.normal(size=shape)).astype(np.float32)
        _require_error(answer, outputs, reference, f"random values of shape {list(shape)}")


def _require_error(answer: Any, outputs: np.ndarray, reference: np.ndarray, what: str) -> None:
    pairs = list(zip(outputs.reshape(-1).tolist(), reference.reshape(-1).tolist()))
    largest, scale = max(abs(a - b) for a, b in pairs), max(abs(b) for _, b in pairs)
    got = answer(outputs, reference)
    require(
        isinstance(got, (int, float)) and abs(got - largest / scale) <= 1e-4 * largest / scale,
        f"{what}: the largest error is {largest:.4g} of {scale:.4g}, which is "
        f"{largest / scale:.4g}, not {shown(got)}",
    )


_LARGEST_ERROR = '''\
import numpy as np


def largest_error(outputs, reference):
    """Return the largest error as a part of the largest absolute value of the reference."""
'''

LARGEST_ERROR = Exercise(
    name="largest_error",
    chapter="00_tour",
    title="An error that is overlooked",
    activity="find the fault",
    minutes=5,
    goal="A colleague compares outputs with those of the reference interpreter. The function "
    "accepts results that are far from the reference. Find the fault, and repair it.",
    answer="largest_error",
    stub=_LARGEST_ERROR
    + "    return float((outputs - reference).max() / np.abs(reference).max())\n",
    solution=_LARGEST_ERROR
    + "    return float(np.abs(outputs - reference).max() / np.abs(reference).max())\n",
    hints=("An output may be too small. What is the difference then?",),
    checks=(Check("an output below its reference, and random values", 2, _check_largest_error),),
)

# Each program with its inputs; the keys are shown to students.
FUSED: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "enp.exp(x)": (enp.exp, ((64, 64),)),
    "enp.tanh(enp.exp(x) + 1.0)": (lambda x: enp.tanh(enp.exp(x) + 1.0), ((64, 64),)),
    "enp.exp(x @ w)": (lambda x, w: enp.exp(x @ w), ((64, 64), (64, 64))),
    "(x @ w) @ w": (lambda x, w: (x @ w) @ w, ((64, 64), (64, 64))),
}


@cache
def _kernels_of_program(text: str, fused: bool) -> int:
    function, shapes = FUSED[text]
    model = load(trace(function)(*[tensor("float32", *s) for s in shapes]))
    options = Options(welder=Welder(enabled=fused), registered=False)
    c = compile(model, target="cpu-avx2", options=options, until="welded")
    return len(c.program.kernel_calls)


def _check_fused_kernels(answer: Any, seed: int) -> None:
    got = answer.run(_own)
    require(isinstance(got, dict), f"fused_kernels is {shown(got)}, and must be a dict")
    for text in FUSED:
        right = [_kernels_of_program(text, fused) for fused in (False, True)]
        pair = got.get(text)
        if pair is None:
            raise NotImplementedError
        require(
            isinstance(pair, (list, tuple)) and list(pair) == right,
            f"{text}: the number of kernels is {right[0]} without fusion and {right[1]} with it, "
            f"not {shown(pair)}",
        )


_FUSED_KERNELS = "fused_kernels = {{  # program: (kernels without fusion, kernels with it)\n{}}}\n"
_FUSED_PAIRS = ((1, 1), (3, 1), (2, 1), (2, 2))

FUSED_KERNELS = Exercise(
    name="fused_kernels",
    chapter="00_tour",
    title="Kernels of four small programs",
    activity="predict",
    minutes=5,
    goal="`x` and `w` are matrices of 64 x 64. Predict for each program how many kernels a CPU "
    "with AVX2 runs without fusion and with it. An operator on single elements can work on a "
    "tile while it is in a register. The second product of `(x @ w) @ w` needs whole rows of "
    "the first.",
    answer="fused_kernels",
    stub=_FUSED_KERNELS.format("".join(f'    "{text}": (..., ...),\n' for text in FUSED)),
    solution=_FUSED_KERNELS.format(
        "".join(f'    "{text}": {pair},\n' for text, pair in zip(FUSED, _FUSED_PAIRS))
    ),
    hints=(
        "Without fusion every operator is a kernel of its own.",
        "Constants such as 1.0 are no operators, but `+` is.",
    ),
    checks=(Check("the kernels that the compiler counts", 2, _check_fused_kernels),),
)


def _check_folded_away(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for count in (3, 4, 5, *(draw.randint(2, 9) for _ in range(12))):
        kinds = [draw.choice(("Conv", "Relu", "Add", "Identity")) for _ in range(count)]
        operators = [f"{kind}_{draw.randint(10, 99)}_{n}" for n, kind in enumerate(kinds)]
        folded = draw.sample(operators, draw.randint(1, len(operators) - 1))
        left = [name for name in operators if name not in folded]
        origins = [draw.sample(left, draw.randint(1, len(left))) for _ in range(draw.randint(1, 3))]
        origins += [[name] for name in left if not any(name in origin for origin in origins)]
        draw.shuffle(origins)
        right = [name for name in operators if name in folded]
        got = answer(operators, origins)
        require(
            isinstance(got, (list, tuple)) and list(got) == right,
            f"of {operators} with kernels of {origins} these {len(right)} were folded away: "
            f"{right}, not {shown(got)}",
        )


_FOLDED_AWAY = '''\
def folded_away(operators, origins):
    """Return the operators that no kernel computes, in the order of the model."""
'''

FOLDED_AWAY = Exercise(
    name="folded_away",
    chapter="00_tour",
    title="Operators without a kernel",
    activity="write",
    minutes=8,
    goal="Some operators are computed while the model is compiled: they are *folded away*, and no "
    "kernel is left for them. `operators` is a list of the names of a model's operators, and "
    "`origins` has a list for each kernel: the names of the operators that it computes. Return the "
    "list of the operators that were folded away, in the order of the model.",
    answer="folded_away",
    stub=_FOLDED_AWAY + "    raise NotImplementedError\n",
    solution=_FOLDED_AWAY
    + """\
    computed = {name for origin in origins for name in origin}
    return [name for name in operators if name not in computed]
""",
    hints=(
        "Collect the names of all origins in one set first.",
        "A set has no order: let the list of the operators decide the order.",
    ),
    checks=(Check("random models and their kernels", 2, _check_folded_away),),
)


def _draw_tasks(draw: Random, cores: int) -> list[tuple[int, int, int]]:
    """Draw tasks (core, start, end) in whole microseconds; on a core they do not overlap."""
    tasks = []
    for core in range(cores):
        now = draw.choice((0, 0, draw.randint(1, 5)))
        for _ in range(draw.randint(0, 4)):
            end = now + draw.randint(1, 6)
            tasks.append((core, now, end))
            now = end + draw.choice((0, draw.randint(1, 4)))
    draw.shuffle(tasks)
    return tasks or [(0, 1, 3)]


def _check_idle_of_cores(answer: Any, seed: int) -> None:
    draw = Random(seed)
    cases = [(2, [(0, 1, 4), (0, 6, 8), (1, 0, 3)]), (3, [(0, 0, 4), (2, 1, 2)])]
    cases += [(cores, _draw_tasks(draw, cores)) for cores in (1, 2, 3, 4, 4)]
    for cores, tasks in cases:
        busy = np.zeros((cores, max(end for _, _, end in tasks)), bool)
        for core, start, end in tasks:
            busy[core, start:end] = True
        right = [int(n) for n in (~busy).sum(axis=1)]
        got = answer(tasks, cores)
        require(
            isinstance(got, (list, tuple)) and list(got) == right,
            f"{cores} cores with the tasks {tasks} are idle for {right} us, not {shown(got)}",
        )


_IDLE_OF_CORES = '''\
def idle_of_cores(tasks, cores):
    """Return a list: the microseconds in which each core has no task, until the last task ends."""
'''

IDLE_OF_CORES = Exercise(
    name="idle_of_cores",
    chapter="00_tour",
    title="Idle time of each core",
    activity="write",
    minutes=15,
    goal="A *wall* has a row of tasks for each core. `tasks` is a list of triples `(core, start, "
    "end)` in whole microseconds and in any order; tasks of one core do not overlap. The wall "
    "begins at 0 and ends with the last task of all cores. Return a list of `cores` numbers: the "
    "idle time of each core, from the beginning of the wall to its end.",
    answer="idle_of_cores",
    stub=_IDLE_OF_CORES + "    raise NotImplementedError\n",
    solution=_IDLE_OF_CORES
    + """\
    idle = [max(end for _, _, end in tasks)] * cores
    for core, start, end in tasks:
        idle[core] -= end - start
    return idle
""",
    hints=(
        "You need no gap between tasks: what is not busy is idle.",
        "A core without a task is idle for as long as the wall lasts.",
    ),
    checks=(Check("two fixed walls, and random ones", 3, _check_idle_of_cores),),
)

WARM_UPS = (OPERATOR_COUNT, LARGEST_ERROR, FUSED_KERNELS, FOLDED_AWAY, IDLE_OF_CORES)
