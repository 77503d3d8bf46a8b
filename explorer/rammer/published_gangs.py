"""Policy of Rammer's published code, where it differs from the paper's Algorithm 1.

Waves are groups of at most 128 operators; adjacent groups are merged where that is faster; a group
too large for the device takes the efficient kernels; a group becomes one rProgram, or each of its
operators does. Source: microsoft/nnfusion, `blockfusion_optimizer.cpp`. Its lanes have cells of a
microsecond; here times are exact, and a synchronisation costs a barrier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.rammer.model import Facts, Placement, ROperator, Share, VDevice, Weighed
from explorer.rammer.rkernels import efficient, fastest
from explorer.rammer.wavefront import place_alone, split_library_calls, waves

MOST_OPERATORS = 128  # of a group, before merging (NNFusion, `blockfusion_optimizer.cpp`)
BLOCKS_PER_CORE = 4  # more in a group: the efficient kernels (NNFusion: 4 * 80, of a V100)


@dataclass(slots=True)
class _Group:
    """A group of operators.

    `merge`: neither cut from a larger wave, nor with a library call in its wave.
    """

    operators: list[int]
    lanes: GangLanes
    merge: bool
    waves: list[int]
    calls: list[int] = field(default_factory=list)  # library calls of its wave

    @property
    def label(self) -> str:
        first, last = self.waves[0], self.waves[-1]
        return f"wave {first}" if first == last else f"waves {first} to {last}"


def gang(facts: Facts) -> Placement:
    """Place groups on the first lanes that are free; `weighed` holds each merge and each group."""
    weighed: list[Weighed] = []
    programs: list[tuple[Share, ...]] = []
    for group in _merge_groups(facts, weighed):
        programs += _programs(facts, group, weighed)
        programs += [place_alone(facts, call) for call in group.calls]
    return Placement(tuple(p for p in programs if p), tuple(weighed))


def _groups(facts: Facts) -> Iterator[_Group]:
    """Yield waves, cut into groups of at most 128 operators."""
    for number, wave in enumerate(waves(facts)):
        kernels, calls = split_library_calls(facts, wave)
        is_complete = len(kernels) <= MOST_OPERATORS and not calls
        for first in range(0, max(1, len(kernels)), MOST_OPERATORS):
            part = kernels[first : first + MOST_OPERATORS]
            group = _Group(part, GangLanes.empty(facts.device), is_complete, [number])
            _place(facts, group.lanes, part)
            if first + MOST_OPERATORS >= len(kernels):
                group.calls = calls
            yield group


def _merge_groups(facts: Facts, weighed: list[Weighed]) -> Iterator[_Group]:
    """Yield the groups, adjacent ones merged where the device would take less time.

    Launches count.
    """
    target: _Group | None = None
    for group in _groups(facts):
        if target is not None and target.merge and group.merge:
            merging = _try_merge(facts, target, group)
            weighed.append(merging)
            if not merging.refused:
                target.operators += group.operators
                target.waves += group.waves
                continue
        if target is not None:
            yield target
        target = group
    if target is not None:
        yield target


def _try_merge(facts: Facts, target: _Group, group: _Group) -> Weighed:
    """Try the second group on the lanes of the first, where it stays if that is faster."""
    lanes, launch_us = target.lanes, facts.device.between_us
    apart_us = lanes.estimate_us + group.lanes.estimate_us + 2 * launch_us
    count, free = len(lanes.shares), lanes.free.copy()
    _place(facts, lanes, group.operators)
    together_us = lanes.estimate_us + launch_us
    label = f"{target.label} with {group.label}"
    terms = (("joined", together_us), ("apart", apart_us))
    if together_us < apart_us:
        return Candidate(label, None, terms)
    lanes.take_back(group.operators, count, free)
    text = f"{together_us:.2f} us as one group, {apart_us:.2f} us as two"
    return Candidate(label, None, terms, text, Refusal("merge", together_us, apart_us, text))


def _programs(facts: Facts, group: _Group, weighed: list[Weighed]) -> list[tuple[Share, ...]]:
    """Return one rProgram, or one an operator where the published code would skip the group."""
    operators, device = facts.operators, facts.device
    kernels = {p: fastest(operators[p], device.units) for p in group.operators}
    blocks = sum(operators[p].kernel(n).tasks for p, n in kernels.items())
    if len(kernels) > 1 and blocks > BLOCKS_PER_CORE * (device.units // device.per_core):
        kernels = {p: efficient(operators[p]) for p in kernels}
    lanes = GangLanes.empty(device)
    for position, kernel in kernels.items():
        lanes.place(position, operators[position], kernel)
    chosen = [operators[p].kernel(n) for p, n in kernels.items()]
    sum_us = sum(-(-k.tasks // device.units) * k.task_us for k in chosen)
    why = None
    if len(chosen) <= 1:
        why = Refusal("operators", len(chosen), 1, "one operator is no group")
    elif all(k.tasks >= device.units for k in chosen):
        why = Refusal("large", len(chosen), 0, "each operator has a task for every unit")
    elif lanes.estimate_us >= sum_us:
        text = f"{lanes.estimate_us:.2f} us in one program, {sum_us:.2f} us one after the other"
        why = Refusal("gain", lanes.estimate_us, sum_us, text)
    terms = (("joined", lanes.estimate_us), ("apart", sum_us))
    weighed.append(Candidate(group.label, None, terms, why.text if why else "", why))
    if why is None:
        return [tuple(lanes.shares)]
    return [place_alone(facts, position) for position in group.operators]


def _place(facts: Facts, lanes: GangLanes, operators: list[int]) -> None:
    for position in operators:
        operator = facts.operators[position]
        lanes.place(position, operator, fastest(operator, facts.device.units))


@dataclass(slots=True)
class GangLanes:
    """A group that grows."""

    device: VDevice
    free: np.ndarray
    used: dict[int, np.ndarray] = field(default_factory=dict)  # by operator, its lanes
    shares: list[Share] = field(default_factory=list)

    @staticmethod
    def empty(device: VDevice) -> GangLanes:
        """Return a group in which nothing is placed."""
        return GangLanes(device, np.zeros(device.units))

    @property
    def estimate_us(self) -> float:
        """The end of the longest lane."""
        return float(self.free.max())

    def take_back(self, operators: Sequence[int], count: int, free: np.ndarray) -> None:
        """Remove these operators and restore `count` shares and the ends `free` of the lanes."""
        for position in operators:
            self.used.pop(position, None)
        del self.shares[count:]
        self.free = free

    def place(self, position: int, operator: ROperator, kernel: int = 0) -> None:
        """Place all tasks on the first lanes that are free, as soon as enough are."""
        chosen = operator.kernel(kernel)
        needed = min(chosen.tasks, len(self.free))
        if not needed:
            return
        begin_us, lanes = self._first_free(needed)
        awaited = [self.used[read] for read in operator.reads if read in self.used]
        if awaited:
            others = np.concatenate(awaited)
            aligned_us = max(begin_us, float(self.free[others].max()) + self.device.barrier_us)
            self.free[others] = np.maximum(self.free[others], aligned_us)
            begin_us = aligned_us
        rounds = -(-chosen.tasks // needed)
        self.free[lanes] = begin_us + rounds * chosen.task_us
        self.used[position] = lanes
        cuts = [chosen.tasks * n // needed for n in range(needed + 1)]
        for n, unit in enumerate(lanes.tolist()):
            self.shares.append(Share(position, unit, cuts[n], cuts[n + 1], kernel))

    def _first_free(self, needed: int) -> tuple[float, np.ndarray]:
        """Return the first moment at which that many lanes are free, and the first of them."""
        begin_us = float(np.partition(self.free, needed - 1)[needed - 1])
        return begin_us, np.flatnonzero(self.free <= begin_us)[:needed]
