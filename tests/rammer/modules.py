"""Random NASBench modules as facts: a few of them one after the other, with tasks and times that a
device could have.
"""

import random

from explorer.frontends.zoo.searched import draw_module
from explorer.rammer import Facts, Placement, RKernel, ROperator, VDevice
from tests.rammer.walls import answers, kernel_of, run_in_some_order

SHAPES = {"conv3x3": (16, 4.0), "conv1x1": (8, 1.5), "maxpool3x3": (4, 0.75)}
STACKED = 3


def module_facts(seed):
    """The facts of STACKED modules, on a device that the seed draws."""
    rng = random.Random(seed)
    operators, before = [], ()
    for turn in range(STACKED):
        module = draw_module(STACKED * seed + turn)
        made = {0: before}
        for vertex, kind in enumerate((*module.operations, "output"), 1):
            reads = tuple(sorted({r for a, b in module.edges if b == vertex for r in made[a]}))
            made[vertex] = (len(operators),)
            operators.append(_operator(f"{turn}.{vertex}", kind, reads, rng))
        before = made[module.last]
    units = rng.choice([1, 2, 3, 4, 8, 16, 80])
    barrier_us, launch_us = rng.choice([(0.0, 0.0), (0.1, 0.5), (0.5, 5.0), (1.0, 1.0)])
    return Facts(tuple(operators), VDevice(units, barrier_us, launch_us))


def _operator(name, kind, reads, rng):
    tasks, task_us = SHAPES.get(kind, (2, 0.5))
    fast = RKernel("fastest", tasks * rng.choice([1, 2, 4]), task_us * rng.uniform(0.3, 1.0))
    if rng.random() < 0.5:
        return ROperator(name, fast.tasks, fast.task_us, reads)
    thrifty = RKernel("efficient", max(1, tasks // 2), task_us * rng.uniform(0.5, 2.0))
    return ROperator(name, fast.tasks, fast.task_us, reads, kernels=(fast, thrifty))


def check(facts, made, seed):
    """A schedule of the facts: every task once, nothing before what it reads, right answers."""
    assert isinstance(made.placement, Placement)
    chosen = kernel_of(facts, made)
    ran = sorted((b.call, task) for b in made.wall.bricks for task in range(b.first, b.last))
    assert ran == sorted((o.name, t) for o in facts.operators for t in range(chosen[o.name].tasks))
    assert run_in_some_order(facts, made.programs, seed) == answers(facts, chosen)
