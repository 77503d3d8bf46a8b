"""How rTasks are placed: pure functions from facts to a placement; any other may be passed."""

from __future__ import annotations

import heapq
from types import MappingProxyType

from explorer.ir.decisions import Candidate
from explorer.rammer.gang import gang
from explorer.rammer.lanes import Lanes
from explorer.rammer.model import Facts, Placement, Policy, Share


def waves(facts: Facts) -> list[list[int]]:
    """Operators by the longest path to them: those of one wave do not need each other."""
    depth: list[int] = []
    out: list[list[int]] = []
    for position, operator in enumerate(facts.operators):
        depth.append(1 + max((depth[read] for read in operator.reads), default=-1))
        if depth[-1] == len(out):
            out.append([])
        out[depth[-1]].append(position)
    return out


def wavefront(facts: Facts) -> Placement:
    """The paper's Algorithm 1: wave by wave, into the current rProgram unless a new one is faster.

    A wave joins where `time(current + wave) <= time(current) + time(wave alone)`.
    """
    current = Lanes.empty(facts.device)
    programs: list[tuple[Share, ...]] = []
    weighed: list[Candidate] = []
    for number, wave in enumerate(waves(facts)):
        alone = _with_wave(Lanes.empty(facts.device), wave, facts)
        apart_us = current.time_us + alone.time_us
        count, free = len(current.shares), current.free[:]
        joined_us = _with_wave(current, wave, facts).time_us
        weighed.append(_weighed(number, joined_us, apart_us))
        if weighed[-1].refused:
            current.take_back(count, free)
            programs.append(tuple(current.shares))
            current = alone
    return Placement(tuple(p for p in (*programs, tuple(current.shares)) if p), tuple(weighed))


def _with_wave(lanes: Lanes, wave: list[int], facts: Facts) -> Lanes:
    for position in wave:
        lanes.place(position, facts.operators[position])
    return lanes


def _weighed(number: int, joined_us: float, apart_us: float) -> Candidate:
    refused = "" if joined_us <= apart_us else "a program of its own is faster"
    terms = (("joined", joined_us), ("apart", apart_us))
    return Candidate(f"wave {number}", None, terms, refused)


def op_by_op(facts: Facts) -> Placement:
    """Two-layer scheduling, the paper's baseline: one operator at a time, then all units meet."""
    units = facts.device.units
    programs = []
    for position, operator in enumerate(facts.operators):
        cuts = [operator.tasks * unit // units for unit in range(units + 1)]
        shares = (Share(position, u, cuts[u], cuts[u + 1]) for u in range(units))
        programs.append(tuple(share for share in shares if share.first < share.last))
    return Placement(tuple(program for program in programs if program))


def critical_path(facts: Facts) -> Placement:
    """List scheduling: of the ready operators first the one with the longest way to the end.

    Graham, 1969, "Bounds on multiprocessing timing anomalies".
    """
    operators = facts.operators
    ahead_us = _longest_ways(facts)
    missing = [len(set(o.reads)) for o in operators]
    readers: list[list[int]] = [[] for _ in operators]
    for position, operator in enumerate(operators):
        for read in set(operator.reads):
            readers[read].append(position)
    ready = [(-ahead_us[p], p) for p, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    lanes = Lanes.empty(facts.device)
    while ready:
        _, position = heapq.heappop(ready)
        lanes.place(position, operators[position])
        for reader in readers[position]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, (-ahead_us[reader], reader))
    return Placement((tuple(lanes.shares),) if lanes.shares else ())


def _longest_ways(facts: Facts) -> list[float]:
    """For each operator the longest time from its start to the program's end, on all units."""
    ways = [0.0] * len(facts.operators)
    for position in reversed(range(len(ways))):
        operator = facts.operators[position]
        rounds = -(-operator.tasks // facts.device.units)
        ways[position] += rounds * operator.task_us
        for read in operator.reads:
            ways[read] = max(ways[read], ways[position])
    return ways


POLICIES: MappingProxyType[str, Policy] = MappingProxyType(
    {
        "wavefront": wavefront,
        "op-by-op": op_by_op,
        "critical-path": critical_path,
        "gang": gang,
    }
)
