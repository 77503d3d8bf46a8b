"""Warm-ups of chapter 06."""

from __future__ import annotations

from math import isfinite
from random import Random
from typing import Any

from explorer.course.exercise import Check, Exercise, require
from explorer.errors import IronworksError
from explorer.ir.decisions.wall import CAUSES
from explorer.rammer import Facts, Placement, ROperator, Share, VDevice, schedule
from explorer.rammer import Options as Rammer
from explorer.rammer.wall_statistics import idle_by_cause
from explorer.rammer.wavefront import waves

Shares = list[tuple[int, int, int, int]]  # an operator, a core, and its first and last task


def _value(answer: Any) -> Any:
    return answer


def _random_operators(draw: Random) -> tuple[ROperator, ...]:
    return tuple(
        ROperator(
            f"op{n}",
            draw.randint(1, 9),
            draw.randint(1, 24) / 4,
            reads=tuple(sorted(draw.sample(range(n), draw.randint(0, min(n, 2))))),
        )
        for n in range(draw.randint(1, 6))
    )


def _check_idle_time(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for _ in range(10):
        operators, cores = _random_operators(draw), draw.randint(1, 6)
        facts = Facts(operators, VDevice(units=cores, launch_us=draw.choice((0.0, 2.5))))
        wall = schedule(facts, Rammer(policy="wavefront")).wall
        right = sum(gap.end_us - gap.start_us for gap in wall.gaps)
        got = answer(cores, wall.total_us, [(o.tasks, o.task_us) for o in operators])
        require(
            type(got) in (int, float) and isfinite(got) and abs(got - right) < 1e-6,
            f"a wall of {cores} cores takes {wall.total_us:g} us: the cores are idle for {right:g} "
            f"us, all together, and not {got!r}"[:300],
        )


IDLE_TIME = Exercise(
    name="idle_time",
    chapter="06_schedules",
    title="The empty part of a wall",
    activity="fill in",
    minutes=3,
    goal="A wall has a row for each core and ends after `total_us`. `operators` is a list of pairs "
    "`(tasks, task_us)`, and each task fills its time on one core. Fill in the blank: how many "
    "core-microseconds are busy? The others are idle.",
    answer="idle_time",
    stub="def idle_time(cores, total_us, operators):\n    return cores * total_us - ...\n",
    solution="def idle_time(cores, total_us, operators):\n"
    "    return cores * total_us - sum(tasks * task_us for tasks, task_us in operators)\n",
    hints=("An operator with 3 tasks of 2 us fills 6 us, whichever cores run them.",),
    checks=(Check("walls of random operators", 1, _check_idle_time),),
)


CORES = 4
Operator = tuple[str, int, float, tuple[int, ...]]  # name, tasks, us of each, operators it reads
WALLS: dict[str, tuple[float, tuple[Operator, ...]]] = {  # the us of a launch, and the operators
    "first": (0.0, (("A", 5, 2.0, ()),)),
    "second": (9.0, (("A", 4, 1.0, ()), ("B", 4, 1.0, (0,)))),
    "third": (0.0, (("A", 1, 6.0, ()), ("B", 4, 1.0, (0,)))),
    "fourth": (0.0, (("A", 4, 2.0, ()), ("B", 1, 6.0, ()))),
}


def _check_idle_causes(answer: Any, seed: int) -> None:
    table = answer.run(_value)
    require(
        isinstance(table, dict) and set(table) == set(WALLS),
        "`idle_causes` is a dict with a cause for each wall",
    )
    for name, (launch_us, operators) in WALLS.items():
        facts = Facts(
            tuple(ROperator(label, n, us, reads=reads) for label, n, us, reads in operators),
            VDevice(units=CORES, launch_us=launch_us),
        )
        idle = idle_by_cause(schedule(facts, Rammer(policy="wavefront")).wall)
        ((cause, idle_us),) = idle.items()
        require(
            str(table[name]).lower() == CAUSES[cause],
            f"the {name} wall is idle for {idle_us:g} core-us because of {CAUSES[cause]!r}, "
            f"and not of {table[name]!r}"[:300],
        )


_IDLE_CAUSES = """\
walls = ("first", "second", "third", "fourth")
causes = (..., ..., ..., ...)  # each is one of the four names
idle_causes = dict(zip(walls, causes))
"""

IDLE_CAUSES = Exercise(
    name="idle_causes",
    chapter="06_schedules",
    title="Why is the core idle?",
    activity="predict",
    minutes=6,
    goal="Four cores follow the policy `wavefront`. Each of these walls is idle for one cause. "
    "They are `launch overhead` (nothing has started yet), `dependency stall` (a core waits for "
    "the result of another operator), `load imbalance` (nothing is waited for, and a core has no "
    "task left of the operator that others still run) and `wave tail` (the program ends on other "
    "cores, with another operator). Which cause has each wall?\n\n"
    "- first: A has 5 tasks of 2 us, and launches are free.\n"
    "- second: A and B have 4 tasks of 1 us each, B reads A, and a launch takes 9 us.\n"
    "- third: A has 1 task of 6 us, B has 4 tasks of 1 us and reads A, and launches are free.\n"
    "- fourth: A has 4 tasks of 2 us, B has 1 task of 6 us and reads nothing, and launches are "
    "free.",
    answer="idle_causes",
    stub=_IDLE_CAUSES,
    solution=_IDLE_CAUSES.replace(
        "(..., ..., ..., ...)",
        '("load imbalance", "launch overhead", "dependency stall", "wave tail")',
    ),
    hints=("Draw each wall on paper: a row for each core, from left to right.",),
    checks=(Check("four walls of the compiler", 2, _check_idle_causes),),
)


def _check_wave_numbers(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for _ in range(20):
        reads = [
            tuple(sorted(draw.sample(range(n), draw.randint(0, min(n, 3)))))
            for n in range(draw.randint(1, 12))
        ]
        operators = tuple(ROperator(f"op{n}", 1, 1.0, reads=r) for n, r in enumerate(reads))
        numbers = {
            operator: number
            for number, wave in enumerate(waves(Facts(operators, VDevice(units=2))))
            for operator in wave
        }
        right = [numbers[n] for n in range(len(reads))]
        got = answer(reads)
        is_list = isinstance(got, (list, tuple)) and len(got) == len(reads)
        require(is_list, f"{len(reads)} operators have a wave each, and not {got!r}"[:300])
        for n, (wave, expected) in enumerate(zip(got, right)):
            require(
                wave == expected,
                f"operator {n} reads {list(reads[n])}, which are in the waves "
                f"{[right[r] for r in reads[n]]}: it is in wave {expected}, not {wave!r}"[:300],
            )


WAVE_NUMBERS = Exercise(
    name="wave_numbers",
    chapter="06_schedules",
    title="The wave of each operator",
    activity="write",
    minutes=10,
    goal="No operator of a wave reads another one of the same wave. Write `wave_numbers(reads)`: "
    "`reads[n]` has the numbers of the operators that operator `n` reads, which are all smaller "
    "than `n`. Operators that read none are in wave 0. Any other one is in the first wave after "
    "all that it reads.",
    answer="wave_numbers",
    stub='''\
def wave_numbers(reads):
    """Return the wave of each operator, in order."""
    raise NotImplementedError
''',
    solution='''\
def wave_numbers(reads):
    """Return the wave of each operator, in order."""
    numbers = []
    for operands in reads:
        numbers.append(1 + max((numbers[n] for n in operands), default=-1))
    return numbers
''',
    hints=(
        "Go through the operators in order: the waves of all operands are then known.",
        "`max(values, default=-1)` returns -1 if there are no values.",
    ),
    checks=(Check("random graphs, with the waves of the compiler", 2, _check_wave_numbers),),
    own_answers=("explorer.rammer.wavefront:waves",),
)


def _facts(tasks: list[int], units: int) -> Facts:
    return Facts(
        tuple(ROperator(f"op{n}", count, 1.0) for n, count in enumerate(tasks)),
        VDevice(units=units),
    )


def _record_shares(answer: Any, tasks: list[int], units: int) -> Shares:
    """Return the shares of a placement as numbers."""
    placement = answer(_facts(tasks, units))
    require(isinstance(placement, Placement), f"the policy returned {placement!r}"[:200])
    shares = [share for program in placement.programs for share in program]
    return [tuple(map(int, (s.operator, s.unit, s.first, s.last))) for s in shares]  # type: ignore[misc]


def _check_parts(answer: Any, tasks: list[int], units: int) -> None:
    sent = answer.run(_record_shares, tasks, units)
    is_valid = isinstance(sent, list) and all(
        isinstance(s, tuple) and [type(n) for n in s] == [int] * 4 for s in sent
    )
    require(is_valid, "the placement cannot be read")
    for number, count in enumerate(tasks):
        shares = [(u, first, last) for n, u, first, last in sent if n == number and first < last]
        placed = sum(last - first for _, first, last in shares)
        case = f"{count} tasks on {units} cores"
        require(placed == count, f"{case}: {placed} of them are placed")
        per_core = [sum(t - f for u, f, t in shares if u == unit) for unit in range(units)]
        require(
            max(per_core) <= -(-count // units),
            f"{case}: a core runs {max(per_core)} of them, and {-(-count // units)} would do",
        )
        cores = [u for u, _, _ in shares]
        require(len(cores) == len(set(cores)), f"{case}: a core has more than one part of them")
    placement = Placement((tuple(Share(*share) for share in sent),))
    facts = _facts(tasks, units)
    try:
        schedule(facts, Rammer(policy=_Fixed(placement)))
    except IronworksError as problem:
        require(False, f"{tasks} tasks on {units} cores: {problem.sentence}")


class _Fixed:
    """A policy that returns a placement; errors name it."""

    __name__ = "in_parts"

    def __init__(self, placement: Placement) -> None:
        """Take the placement."""
        self.placement = placement

    def __call__(self, facts: Facts) -> Placement:
        """Return the placement."""
        return self.placement


def _check_in_parts(answer: Any, seed: int) -> None:
    draw = Random(seed)
    _check_parts(answer, [8, 7], 4)
    for _ in range(10):
        tasks = [draw.randint(1, 20) for _ in range(draw.randint(1, 4))]
        _check_parts(answer, tasks, draw.randint(1, 6))


_IN_PARTS = '''\
from explorer.rammer import Facts, Placement, Share


def in_parts(facts: Facts) -> Placement:
    """Cut the tasks of each operator into one contiguous part for each core."""
    cores = facts.device.units
    parts = []
    for number, operator in enumerate(facts.operators):
        for core in range(cores):
            first = core * (operator.tasks // cores)
            last = (core + 1) * (operator.tasks // cores)
            if first < last:
                parts.append(Share(number, core, first, last))
    return Placement((tuple(parts),))
'''

IN_PARTS = Exercise(
    name="in_parts",
    chapter="06_schedules",
    title="A policy that loses tasks",
    activity="find the fault",
    minutes=12,
    goal="The policy `in_parts` should cut the tasks of each operator into contiguous parts, one "
    "for each core, and as even as possible: no core gets more than the number of tasks divided by "
    "the number of cores, rounded up. There is one fault: find it and correct it.",
    answer="in_parts",
    stub=_IN_PARTS,
    solution=_IN_PARTS.replace(
        "core * (operator.tasks // cores)", "core * operator.tasks // cores"
    ).replace("(core + 1) * (operator.tasks // cores)", "(core + 1) * operator.tasks // cores"),
    hints=(
        "Place 7 tasks on 4 cores by hand: which tasks does the stub assign to the last core?",
        "Round the borders of the parts, and not their length: part `core` begins where the one "
        "before it ends.",
    ),
    checks=(Check("random operators, replayed in the compiler", 2, _check_in_parts),),
    own_answers=(
        "explorer.rammer.wavefront:op_by_op",
        "explorer.rammer.wavefront:place_alone",
    ),
)

WARM_UPS = (IDLE_TIME, IDLE_CAUSES, WAVE_NUMBERS, IN_PARTS)
