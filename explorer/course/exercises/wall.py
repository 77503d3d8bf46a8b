"""Exercise: a Rammer policy that leaves no core idle while there is work."""

from __future__ import annotations

from random import Random
from typing import Any

from explorer.compiler import compile
from explorer.course.exercise import Check, Exercise, require
from explorer.options import Options
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


EXERCISE = Exercise(
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
