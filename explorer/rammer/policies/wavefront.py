"""Wavefront policy, the paper's Algorithm 1: each wave joins the current rProgram or starts one."""

from __future__ import annotations

from math import isclose

from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.rammer.model import Facts, Placement, Share, Weighed
from explorer.rammer.policies.lanes import Lanes
from explorer.rammer.policies.op_by_op import place_alone
from explorer.rammer.policies.rkernels import lay_wave
from explorer.rammer.policies.topological_levels import split_library_calls, waves


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
