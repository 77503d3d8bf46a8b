"""Random facts, and an independent reading of what a schedule's waits guarantee."""

import random
from dataclasses import replace
from itertools import pairwise

import networkx as nx
from hypothesis import strategies as st

from explorer.ir.decisions.wall import Run
from explorer.rammer import Facts, RKernel, ROperator, VDevice

TIMES = st.sampled_from([0.5, 1.0, 1.0, 3.0, 20.0])


@st.composite
def facts(draw, units=st.integers(1, 5), most=14):
    """Up to `most` operators with random tasks, times and reads, on a random device."""
    operators = []
    for n in range(draw(st.integers(1, most))):
        reads = draw(st.sets(st.integers(0, n - 1), max_size=3)) if n else set()
        operators.append(
            ROperator(f"op{n}", draw(st.integers(1, 9)), draw(TIMES), tuple(sorted(reads)))
        )
    costs = st.sampled_from([0.0, 0.25, 1.0])
    return Facts(tuple(operators), VDevice(draw(units), draw(costs), draw(costs)))


@st.composite
def rich_facts(draw, units=st.integers(1, 5), most=10, constants=True, library=True):
    """With implementations to choose from, constants and caches, tasks that are aligned with those
    that they read, and library calls.
    """
    plain = draw(facts(units, most))
    operators = []
    for o in plain.operators:
        if library and draw(st.integers(0, 9)) == 0:
            operators.append(replace(o, tasks=1, kind="library"))
            continue
        if draw(st.integers(0, 3)) == 0:
            other = RKernel("efficient", draw(st.integers(1, 9)), draw(TIMES))
            operators.append(replace(o, kernels=(RKernel("fastest", o.tasks, o.task_us), other)))
            continue
        if constants and draw(st.booleans()):
            weights = f"weights{draw(st.integers(0, 2))}"
            cached_us = o.task_us * draw(st.sampled_from([0.0, 0.3, 0.9]))
            size = draw(st.sampled_from([10, 60, 300]))
            o = replace(o, constant=weights, constant_bytes=size, cached_us=cached_us)
        same = [
            r
            for r in o.reads
            if operators[r].tasks == o.tasks and not operators[r].kernels + tuple(operators[r].kind)
        ]
        operators.append(
            replace(o, aligned=tuple(draw(st.sets(st.sampled_from(same)))) if same else ())
        )
    cache = draw(st.sampled_from([0, 100, 1000])) if constants else 0
    device = replace(
        plain.device,
        cache_bytes=cache,
        resident=draw(st.booleans()),
        step_us=draw(st.sampled_from([0.0, 0.125])),
    )
    return Facts(tuple(operators), device)


def kernel_of(facts, made):
    """By name, the implementation that each operator runs with."""
    chosen = {o.name: o.kernel(0) for o in facts.operators}
    for program in made.placement.programs:
        for share in program:
            operator = facts.operators[share.operator]
            chosen[operator.name] = operator.kernel(share.kernel)
    return chosen


def answer(facts, position, task, known):
    """What a task makes of what it reads: a number that tells of all of it, in order; KeyError
    where it reads what was not written.
    """
    operator = facts.operators[position]
    seen = []
    for read in operator.reads:
        tasks = known["tasks"][read]
        for other in [task] if read in operator.aligned else range(tasks):
            seen.append(known[read, other])
    return hash((position, task, *seen))


def answers(facts, kernels):
    """Of all tasks, one operator after the other."""
    known = {"tasks": [kernels[o.name].tasks for o in facts.operators]}
    for position, tasks in enumerate(known["tasks"]):
        for task in range(tasks):
            known[position, task] = answer(facts, position, task, known)
    return known


def run_in_some_order(facts, programs, seed):
    """The answers of a run whose units take turns as the seed says; AssertionError where they
    deadlock.
    """
    names = {o.name: n for n, o in enumerate(facts.operators)}
    tasks = [0] * len(facts.operators)
    for program in programs:
        for rows in program.units:
            for row in rows:
                if isinstance(row, Run):
                    tasks[names[program.calls[row.call]]] += row.last - row.first
    known = {"tasks": tasks}
    for program in programs:
        order = replay(program, seed)
        assert order is not None, "the units wait for each other"
        for run in order:
            position = names[program.calls[run.call]]
            for task in range(run.first, run.last):
                known[position, task] = answer(facts, position, task, known)
    return known


def edges(facts):
    """(writer, reader) positions."""
    return [(read, n) for n, o in enumerate(facts.operators) for read in o.reads]


def position(facts, program, run):
    """Which operator a Run is of."""
    names = [o.name for o in facts.operators]
    return names.index(program.calls[run.call])


def happens_before(program):
    """A graph over (unit, n-th Run): program order, and an edge for each wait."""
    graph = nx.DiGraph()
    for unit, rows in enumerate(program.units):
        step, awaited = 0, []
        for row in rows:
            if isinstance(row, Run):
                step += 1
                graph.add_node((unit, step), run=row)
                graph.add_edges_from((other, (unit, step)) for other in awaited)
                awaited = []
            else:
                awaited.append((row.unit, row.step))
        graph.add_edges_from(((unit, a), (unit, b)) for a, b in pairwise(range(1, step + 1)))
    return graph


def replay(program, seed):
    """The Runs in the order of one random interleaving; None where the units deadlock."""
    rng = random.Random(seed)
    at, shown, order = [0] * len(program.units), [0] * len(program.units), []
    able = [unit for unit, rows in enumerate(program.units) if rows]
    parked = {}  # units by what they wait for
    while able:
        place = rng.randrange(len(able))
        unit = able[place]
        row = program.units[unit][at[unit]]
        if isinstance(row, Run):
            shown[unit] += 1
            order.append(row)
            able += parked.pop((unit, shown[unit]), [])
        elif shown[row.unit] < row.step:
            parked.setdefault((row.unit, row.step), []).append(able.pop(place))
            continue
        at[unit] += 1
        if at[unit] == len(program.units[unit]):
            able.pop(place)
    return order if all(a == len(rows) for a, rows in zip(at, program.units)) else None
