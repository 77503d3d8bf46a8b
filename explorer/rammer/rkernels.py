"""SelectRKernels: the implementation of each operator of a wave (the paper, section 4.2).

A wave that leaves units idle even with the fastest implementations uses those. A wave that fills
the device is laid twice, with the fastest and with the most efficient ones: the implementation that
is fastest alone may leave the least room for others.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.rammer.lanes import Lanes
from explorer.rammer.model import Facts, ROperator


def fastest(operator: ROperator, units: int) -> int:
    """Return the implementation that ends first on all units."""
    if len(operator.kernels) < 2:
        return 0
    times = [-(-k.tasks // units) * k.task_us for k in operator.kernels]
    return times.index(min(times))


def efficient(operator: ROperator) -> int:
    """Return the implementation with the smallest area on the wall: tasks times their length."""
    if len(operator.kernels) < 2:
        return 0
    areas = [k.work_us for k in operator.kernels]
    return areas.index(min(areas))


def lay_wave(
    lanes: Lanes, wave: Sequence[int], facts: Facts, number: int = 0
) -> tuple[Candidate[str], ...]:
    """Append a wave with the better implementations; return the comparison, if there was one."""
    operators, units = facts.operators, facts.device.units
    fast = {p: fastest(operators[p], units) for p in wave}
    thrifty = {p: efficient(operators[p]) for p in wave}
    tasks = sum(operators[p].kernel(n).tasks for p, n in fast.items()) if fast != thrifty else 0
    count, free = len(lanes.laid), lanes.free
    fast_us = _lay(lanes, facts, fast)
    if fast == thrifty:
        return ()
    label = f"kernels of wave {number}"
    if tasks < units:
        refusal = Refusal(
            "units", tasks, units, f"the fastest kernels' {tasks} tasks leave some of {units} idle"
        )
        return (Candidate(label, "efficient", (("fastest", fast_us),), refusal.text, refusal),)
    lanes.take_back(count, free)
    thrifty_us = _lay(lanes, facts, thrifty)
    terms = (("fastest", fast_us), ("efficient", thrifty_us))
    if thrifty_us < fast_us:
        return (Candidate(label, "efficient", terms),)
    lanes.take_back(count, free)
    _lay(lanes, facts, fast)
    text = f"{thrifty_us:.2f} us with the efficient kernels, {fast_us:.2f} us with the fastest"
    refusal = Refusal("kernels", thrifty_us, fast_us, text)
    return (Candidate(label, "efficient", terms, text, refusal),)


def _lay(lanes: Lanes, facts: Facts, kernels: dict[int, int]) -> float:
    for position, kernel in kernels.items():
        lanes.place(position, facts.operators[position], kernel)
    return lanes.time_us
