"""The policy of Welder's artifact ("shipped"): greedy groups, equal grids, best-first tiles.

The artifact's files are engine.py and policy/default.py. Differences, because a kernel of ours
stores one tensor: a group has one output. Fusion at register level (a reduction with its epilogue)
is accepted without a search, as it leaves every tile as it was. Latencies are modelled, by Roller
inside of each tile on a CPU, where the artifact runs kernels. A growing gain is a group that is
faster than its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.ir.kernel import Kernel
from explorer.welder.groups import Facts, Group
from explorer.welder.merge_groups import MergedGroup, is_whole, merge_groups
from explorer.welder.policy import refused, unpriced
from explorer.welder.refusals import no_gain, other_readers
from explorer.welder.tiles.layers import best_first
from explorer.welder.tiles.reduce_steps import first_steps, longer_steps
from explorer.welder.tiles.sized_tile import SizedTile, size_tile
from explorer.welder.tiles.tile_costs import base_tile, holder
from explorer.welder.tune_merges import Tuned, tune

MOST_NEW_KERNELS = 10  # absorbed at once by a group; Welder artifact
MOST_VISITED_TILES, KEPT_TILES = 2000, 20  # bounds on search time; Welder artifact: its topk is 20


def artifact_policy(kernels: Sequence[Group], facts: Facts) -> Sequence[Group]:
    """Return groups in program order.

    Each kernel without a group absorbs the readers of its output and their other producers, for as
    long as the modelled gain grows.
    """
    builder = _Builder(facts, {k.name: k for k in kernels})
    for kernel in builder.order():
        if kernel.name not in builder.group_of:
            builder.build(kernel)
    return tuple(sorted(builder.groups, key=lambda g: g.number))


def artifact_tiles(kernel: Kernel, device: Device) -> Sequence[SizedTile] | Refusal:
    """Return the output tiles of a kernel of fixed extents, by (traffic + 1) * waves.

    They leave no compute a grid of its own, and have the longest reduce steps that fit.
    """
    memory, base = holder(device), base_tile(kernel, device)
    steps = first_steps(kernel, memory, base)
    tiles = best_first(
        kernel, base, lambda t: size_tile(kernel, device, memory, t, steps), lambda s: s.key,
        most=MOST_VISITED_TILES,
    )  # fmt: skip
    even = [s for s in tiles if s.even]
    if not even and tiles[0].fits:
        text = f"none of {len(tiles)} tiles cuts every compute into as many parts as the output"
        return Refusal("grids", 0, 1, text, "a policy that recomputes halos")
    return [longer_steps(kernel, device, s) for s in even[:KEPT_TILES]] or tiles[:1]


@dataclass(slots=True)
class _Builder:
    """The groups built so far, and the graph of kernels to be grouped."""

    facts: Facts
    kernels: dict[str, Group]
    readers: dict[str, list[str]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    group_of: dict[str, str] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)

    def order(self) -> list[Group]:
        """Return kernels after all that they read, one chain as far as it goes before the next."""
        waiting = {}
        for name, kernel in self.kernels.items():
            producers = {a.name for a in kernel.args} & self.kernels.keys()
            waiting[name] = len(producers)
            for value in producers:
                self.readers.setdefault(value, []).append(name)
        todo = [n for n in reversed(self.kernels) if not waiting[n]]
        ordered: list[Group] = []
        while todo:
            name = todo.pop()
            self.places[name] = len(ordered)
            ordered.append(self.kernels[name])
            for reader in reversed(self.readers.get(name, [])):
                waiting[reader] -= 1
                if not waiting[reader]:
                    todo.append(reader)
        return ordered

    def build(self, top: Group) -> None:
        """Build the group of a kernel and of those absorbed after it."""
        names, group, tiled = {top.name}, top, False
        queue = [(self.places[top.name], top.name)]
        steps: list[Candidate[bool]] = []
        while queue:
            _, name = heappop(queue)
            new = self._new(name, names)
            if new is None:
                continue
            verdict, both = self._weigh(name, group, names, new)
            steps.append(verdict)
            if both is not None:
                group = both.group
                tiled = tiled or any(t == "welded" for t, _ in verdict.terms)
                names |= new
                for each in new:
                    heappush(queue, (self.places[each], each))
        self.group_of |= dict.fromkeys(names, group.name)
        tuning = self._tune(group) if tiled else None
        tile = tuning.best if isinstance(tuning, Tuned) else None
        self.groups.append(replace(group, steps=tuple(steps), tile=tile))

    def _new(self, name: str, names: set[str]) -> set[str] | None:
        """Return the readers of a value that are not in the group, with their ungrouped producers.

        Return None if there are none.
        """
        todo = [r for r in self.readers.get(name, []) if r not in names]
        new: set[str] = set()
        while todo:
            each = todo.pop()
            if each not in new and each not in names and len(new) <= MOST_NEW_KERNELS:
                new.add(each)
                args = (a.name for a in self.kernels[each].args)
                todo += [a for a in args if a in self.kernels and a not in self.group_of]
        return new or None

    def _weigh(
        self, name: str, group: Group, names: set[str], new: set[str]
    ) -> tuple[Candidate[bool], MergedGroup | None]:
        """Return the verdict on a group with new kernels, and the group if its gain grows."""
        label = f"{name} into {', '.join(sorted(new, key=lambda n: self.kernels[n].number))}"
        why = self._refusal(name, new)
        both = merge_groups(names | new, self.kernels, self.facts) if why is None else why
        if isinstance(both, Refusal):
            return refused(label, both), None
        free_verdict = self._unpriced(name, new, both)
        if free_verdict is not None:
            return replace(free_verdict, label=label), None if free_verdict.refused else both
        tuning = self._tune(both.group)
        if isinstance(tuning, Refusal):
            return refused(label, tuning), None
        before = self._us(group) + sum(self._us(self.kernels[n]) for n in new)
        terms = (("apart", -before), ("welded", tuning.us))
        if tuning.us > before and name not in self.facts.connect:
            return refused(label, no_gain(tuning.us - before, before), terms), None
        return Candidate(label, True, terms), both

    def _unpriced(self, name: str, new: set[str], both: MergedGroup) -> Candidate[bool] | None:
        """Return the verdict if no kernel that comes in needs a price."""
        if name in self.facts.connect:
            return None
        merges = [both.merges[n] for n in (name, *new) if n in both.merges]
        verdicts = [unpriced(m, self.facts) for m in merges]
        free_verdicts = [c for c in verdicts if c is not None]
        barred = next((c for c in free_verdicts if c.refused), None)
        if barred is not None:
            return barred
        if len(free_verdicts) < len(verdicts):
            return None
        return Candidate("", True, tuple(t for c in free_verdicts for t in c.terms))

    def _refusal(self, name: str, new: set[str]) -> Refusal | None:
        taken = [n for n in new if n in self.group_of]
        if taken:
            text = f"{taken[0]} reads it from the group {self.group_of[taken[0]]}"
            return Refusal("readers", len(taken), 0, text, f"split {taken[0]} from its group")
        if len(new) > MOST_NEW_KERNELS:
            text = f"more than {MOST_NEW_KERNELS} kernels would be absorbed at once"
            return Refusal(
                "kernels", len(new), MOST_NEW_KERNELS, text, "connect fewer of them by hand"
            )
        if not all(is_whole(self.kernels[n]) for n in (name, *new)):
            return Refusal("parts", 2, 1, "one of them writes a part of a larger tensor")
        if name in self.facts.results:
            return other_readers(self.kernels[name], name, self.facts)
        return None

    def _tune(self, group: Group) -> Tuned | Refusal:
        return tune(group.kernel, self.facts, artifact_tiles, "shipped")

    def _us(self, group: Group) -> float:
        """Return the time of a group at its best tile, or if none fits as Roller tiles it."""
        tuning = self._tune(group) if is_whole(group) else None
        if isinstance(tuning, Tuned):
            return tuning.us
        return self.facts.price(group.kernel, self.facts.env)
