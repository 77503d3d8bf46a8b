"""Waves of operators: the paper's wavefront policy, and one operator after the other.

Wavefront is Algorithm 1: each wave joins the current rProgram or starts one.
"""

from __future__ import annotations

from math import isclose

from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.rammer.lanes import Lanes
from explorer.rammer.model import Facts, Placement, Share, Weighed
from explorer.rammer.rkernels import fastest, lay_wave


def wavefront(facts: Facts) -> Placement:
    """Let a wave join where `time(current + wave) <= time(current) + time(wave alone)`.

    The paper's listing does not push the last rProgram; this does. `weighed` holds for each wave
    the comparison of joining it, and of its kernels where there was a choice.
    """
    current = Lanes.empty(facts.device)
    programs: list[tuple[Share, ...]] = []
    weighed: list[Weighed] = []
    for number, wave in enumerate(waves(facts)):
        kernels, calls = split_library_calls(facts, wave)
        if kernels:
            new = Lanes.empty(facts.device)
            chosen_apart = lay_wave(new, kernels, facts, number)
            apart_us = current.time_us + new.time_us
            count, free = len(current.laid), current.free
            chosen = lay_wave(current, kernels, facts, number)
            joining = _compare_joining(number, current.time_us, apart_us)
            if joining.refused:
                current.take_back(count, free)
                programs.append(current.shares)
                current, chosen = new, chosen_apart
            weighed += (joining, *chosen)
        if calls:
            programs += (current.shares, *(place_alone(facts, call) for call in calls))
            current = Lanes.empty(facts.device)
    return Placement(tuple(p for p in (*programs, current.shares) if p), tuple(weighed))


def _compare_joining(number: int, joined_us: float, apart_us: float) -> Weighed:
    """Return the accept rule with its numbers; times that differ by rounding alone are equal."""
    terms = (("joined", joined_us), ("apart", apart_us))
    if joined_us <= apart_us or isclose(joined_us, apart_us):
        return Candidate(f"wave {number}", None, terms)
    more_us = joined_us - apart_us
    refusal = Refusal(
        "time(P1) <= time(cur) + time(P2)",
        joined_us,
        apart_us,
        f"{joined_us:.2f} us joined, {apart_us:.2f} us apart: a program of its own is faster",
        f"a launch that costs {more_us:.2f} us more would join it",
    )
    return Candidate(f"wave {number}", None, terms, refusal.text, refusal)


def op_by_op(facts: Facts) -> Placement:
    """Make each operator an rProgram of its fastest implementation, evenly cut."""
    return Placement(tuple(p for n in range(len(facts.operators)) if (p := place_alone(facts, n))))


def place_alone(facts: Facts, position: int) -> tuple[Share, ...]:
    """Return the shares of one operator on all units; of a library call, on unit 0."""
    operator = facts.operators[position]
    units = 1 if operator.kind == "library" else facts.device.units
    number = fastest(operator, units)
    tasks = operator.kernel(number).tasks
    cuts = [tasks * unit // units for unit in range(units + 1)]
    return tuple(
        Share(position, unit, cuts[unit], cuts[unit + 1], number)
        for unit in range(units)
        if cuts[unit] < cuts[unit + 1]
    )


def waves(facts: Facts) -> list[list[int]]:
    """Return the operators by the longest path to them: no two of one wave reach each other."""
    depth: list[int] = []
    out: list[list[int]] = []
    for position, operator in enumerate(facts.operators):
        depth.append(1 + max((depth[read] for read in operator.reads), default=-1))
        if depth[-1] == len(out):
            out.append([])
        out[depth[-1]].append(position)
    return out


def split_library_calls(facts: Facts, wave: list[int]) -> tuple[list[int], list[int]]:
    """Return the kernels of a wave, and its library calls, which are launches of their own."""
    calls = [p for p in wave if facts.operators[p].kind == "library"]
    return [p for p in wave if p not in calls] if calls else wave, calls
