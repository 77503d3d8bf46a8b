"""Random facts, and an independent reading of what a schedule's waits guarantee."""

import random
from itertools import pairwise

import networkx as nx
from hypothesis import strategies as st

from explorer.ir.decisions import Run
from explorer.rammer import Facts, ROperator, VDevice

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
    rows = [list(r) for r in program.units]
    at, shown, order = [0] * len(rows), [0] * len(rows), []
    while any(a < len(r) for a, r in zip(at, rows)):
        able = []
        for unit, r in enumerate(rows):
            if at[unit] < len(r):
                row = r[at[unit]]
                if isinstance(row, Run) or shown[row.unit] >= row.step:
                    able.append(unit)
        if not able:
            return None
        unit = rng.choice(able)
        row = rows[unit][at[unit]]
        at[unit] += 1
        if isinstance(row, Run):
            shown[unit] += 1
            order.append(row)
    return order
