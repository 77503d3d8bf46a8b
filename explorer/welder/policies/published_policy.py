"""The policy of Welder's artifact ("shipped"): greedy groups by gain, equal grids, and a best-first
search for the tile (engine.py and policy/default.py of the artifact).

What differs from the artifact, because a kernel of ours stores one tensor: a group has one output.
What fuses at register level (a reduction with what follows it) is taken without a search, as it
leaves every tile as it was; latencies are modelled, by Roller inside of each tile on a CPU, where
the artifact runs kernels; a gain that grows is a group that is quicker than what it was made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.ir.kernel import Kernel
from explorer.welder.groups.groups import Facts, Group
from explorer.welder.groups.refusals import no_gain, other_readers
from explorer.welder.policies.merge_groups import Joined, is_whole, join
from explorer.welder.policies.tuned import Tuned, tuned
from explorer.welder.policy import refused, unpriced
from explorer.welder.tiles.best_first import best_first
from explorer.welder.tiles.reduce_steps import first_steps, longer_steps
from explorer.welder.tiles.sized import Sized, sized
from explorer.welder.tiles.tile_costs import base_tile, holder

MOST_NEW_KERNELS = 10  # that a group takes in at once; Welder artifact
MOST_VISITED_TILES, KEPT_TILES = 2000, 20  # bounds on search time; Welder artifact: its topk is 20


def shipped(kernels: Sequence[Group], facts: Facts) -> Sequence[Group]:
    """Groups in program order: each kernel that has none yet takes in the readers of its output and
    what else these need, for as long as the modelled gain grows.
    """
    builder = _Builder(facts, {k.name: k for k in kernels})
    for kernel in builder.order():
        if kernel.name not in builder.group_of:
            builder.build(kernel)
    return tuple(sorted(builder.groups, key=lambda g: g.number))


def shipped_tiles(kernel: Kernel, device: Device) -> Sequence[Sized] | Refusal:
    """The output tiles of a kernel with numbers for dims, by (traffic + 1) * waves: those that
    leave no compute of it a grid of its own, in the longest reduce steps that have room.
    """
    memory, base = holder(device), base_tile(kernel, device)
    steps = first_steps(kernel, memory, base)
    found = best_first(
        kernel, base, lambda t: sized(kernel, device, memory, t, steps), lambda s: s.key,
        most=MOST_VISITED_TILES,
    )  # fmt: skip
    even = [s for s in found if s.even]
    if not even and found[0].fits:
        text = f"none of {len(found)} tiles cuts every compute into as many parts as the output"
        return Refusal("grids", 0, 1, text, "a policy that lets halos be computed again")
    return [longer_steps(kernel, device, s) for s in even[:KEPT_TILES]] or found[:1]


@dataclass(slots=True)
class _Builder:
    """Groups that have been built so far, and the graph of kernels that are to be grouped."""

    facts: Facts
    kernels: dict[str, Group]
    readers: dict[str, list[str]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    group_of: dict[str, str] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)

    def order(self) -> list[Group]:
        """Kernels after all that they read, one chain as far as it goes before the next."""
        waiting = {}
        for name, kernel in self.kernels.items():
            made = {a.name for a in kernel.args} & self.kernels.keys()
            waiting[name] = len(made)
            for value in made:
                self.readers.setdefault(value, []).append(name)
        todo = [n for n in reversed(self.kernels) if not waiting[n]]
        found: list[Group] = []
        while todo:
            name = todo.pop()
            self.places[name] = len(found)
            found.append(self.kernels[name])
            for reader in reversed(self.readers.get(name, [])):
                waiting[reader] -= 1
                if not waiting[reader]:
                    todo.append(reader)
        return found

    def build(self, top: Group) -> None:
        """The group of a kernel and what is absorbed after it."""
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
        found = self._tuned(group) if tiled else None
        tile = found.best if isinstance(found, Tuned) else None
        self.groups.append(replace(group, steps=tuple(steps), tile=tile))

    def _new(self, name: str, names: set[str]) -> set[str] | None:
        """The readers of a value that are not in the group, with all that these need and that has
        no group yet; None where there are none.
        """
        todo = [r for r in self.readers.get(name, []) if r not in names]
        found: set[str] = set()
        while todo:
            each = todo.pop()
            if each not in found and each not in names and len(found) <= MOST_NEW_KERNELS:
                found.add(each)
                args = (a.name for a in self.kernels[each].args)
                todo += [a for a in args if a in self.kernels and a not in self.group_of]
        return found or None

    def _weigh(
        self, name: str, group: Group, names: set[str], new: set[str]
    ) -> tuple[Candidate[bool], Joined | None]:
        """The group with new kernels: how its gain over single ones grows, or why not."""
        label = f"{name} into {', '.join(sorted(new, key=lambda n: self.kernels[n].number))}"
        why = self._refusal(name, new)
        both = join(names | new, self.kernels, self.facts) if why is None else why
        if isinstance(both, Refusal):
            return refused(label, both), None
        told = self._unpriced(name, new, both)
        if told is not None:
            return replace(told, label=label), None if told.refused else both
        found = self._tuned(both.group)
        if isinstance(found, Refusal):
            return refused(label, found), None
        before = self._us(group) + sum(self._us(self.kernels[n]) for n in new)
        terms = (("apart", -before), ("welded", found.us))
        if found.us > before and name not in self.facts.connect:
            return refused(label, no_gain(found.us - before, before), terms), None
        return Candidate(label, True, terms), both

    def _unpriced(self, name: str, new: set[str], both: Joined) -> Candidate[bool] | None:
        """The verdict where no kernel that comes in needs a price."""
        if name in self.facts.connect:
            return None
        merges = [both.merges[n] for n in (name, *new) if n in both.merges]
        found = [unpriced(m, self.facts) for m in merges]
        told = [c for c in found if c is not None]
        barred = next((c for c in told if c.refused), None)
        if barred is not None:
            return barred
        if len(told) < len(found):
            return None
        return Candidate("", True, tuple(t for c in told for t in c.terms))

    def _refusal(self, name: str, new: set[str]) -> Refusal | None:
        taken = [n for n in new if n in self.group_of]
        if taken:
            text = f"{taken[0]} reads it from the group {self.group_of[taken[0]]}"
            return Refusal("readers", len(taken), 0, text, f"split {taken[0]} from its group")
        if len(new) > MOST_NEW_KERNELS:
            text = f"more than {MOST_NEW_KERNELS} kernels would come in at once"
            return Refusal(
                "kernels", len(new), MOST_NEW_KERNELS, text, "connect fewer of them by hand"
            )
        if not all(is_whole(self.kernels[n]) for n in (name, *new)):
            return Refusal("parts", 2, 1, "one of them writes a part of a larger tensor")
        if name in self.facts.results:
            return other_readers(self.kernels[name], name, self.facts)
        return None

    def _tuned(self, group: Group) -> Tuned | Refusal:
        return tuned(group.kernel, self.facts, shipped_tiles, "shipped")

    def _us(self, group: Group) -> float:
        """The time of a group at its best tile, or where none has room as Roller cuts it."""
        found = self._tuned(group) if is_whole(group) else None
        if isinstance(found, Tuned):
            return found.us
        return self.facts.price(group.kernel, self.facts.env)
