"""Topological levels of the operators: those of one level are independent."""

from __future__ import annotations

from explorer.rammer.model import Facts


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
