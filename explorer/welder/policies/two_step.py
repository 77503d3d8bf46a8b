"""The paper's two-step policy ("two_step"): GraphConnecting over SubGraphTiling (Welder, figure 7).

Labelled: the literal recursion is not in the artifact, whose engine groups greedily ("shipped"). A
value is one edge to all of its readers, since a kernel of ours stores one tensor; that is why edges
are looked at again when later ones have been connected. "Least latency" compares the group with the
groups that it is made of, by Roller's model on a CPU and by traffic and arithmetic on a GPU; of
levels with equal latency the one wins that moves least between the memories inside of a task. What
leaves every tile as it was is connected in registers, and what cannot gain by its traffic stays
apart, without a search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from explorer.cost.bound import bind_kernel, sizes_of
from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.welder.groups.groups import Facts, Group
from explorer.welder.groups.refusals import no_gain
from explorer.welder.policies.merge_groups import Joined, is_whole, join
from explorer.welder.policies.tuned import Tuned, tuned
from explorer.welder.policy import refused, unpriced
from explorer.welder.tiles.capacity import in_words
from explorer.welder.tiles.layers import Layer, layers, task_level, task_tiles
from explorer.welder.tiles.levels import REGISTER, memories
from explorer.welder.tiles.tile_graph import Link, links

MOST_SWEEPS = 3  # over all edges, so long as one changes something: a bound on search time, chosen


def two_step(kernels: Sequence[Group], facts: Facts) -> Sequence[Group]:
    """Groups in program order: each value is handed over at the level with the least latency."""
    found = _Connecting(facts, {k.name: k for k in kernels})
    found.begin()
    while found.sweeps < MOST_SWEEPS and found.sweep():
        pass
    return found.groups()


@dataclass(frozen=True, slots=True)
class _Part:
    """A connected sub-graph: its kernels, and the group that they are. `tiled`: an edge of it was
    weighed by its tiles.
    """

    names: frozenset[str]
    group: Group
    tiled: bool = False


@dataclass(slots=True)
class _Connecting:
    """The levels that edges have so far, and the sub-graphs that follow."""

    facts: Facts
    kernels: dict[str, Group]
    readers: dict[str, list[str]] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)  # of the values that are connected
    part_of: dict[str, _Part] = field(default_factory=dict)
    steps: dict[str, tuple[Candidate[bool], ...]] = field(default_factory=dict)  # by value
    refused_with: dict[str, frozenset[str]] = field(default_factory=dict)
    sweeps: int = 0

    def begin(self) -> None:
        """Every edge at level 0: each kernel is a sub-graph of its own."""
        for name, kernel in self.kernels.items():
            for a in dict.fromkeys(kernel.args):
                if a.name in self.kernels:
                    self.readers.setdefault(a.name, []).append(name)
            self.part_of[name] = _Part(frozenset((name,)), kernel)

    def sweep(self) -> bool:
        """Look at every edge that is not connected, in program order; whether one was."""
        changed = False
        self.sweeps += 1
        for name in self.kernels:
            if name in self.readers and name not in self.levels:
                changed |= self._connect(name)
        return changed

    def _connect(self, name: str) -> bool:
        """One edge, between the sub-graphs as they are; not again where these are the same."""
        parts = {id(p): p for n in (name, *self.readers[name]) for p in (self.part_of[n],)}
        names = frozenset[str]().union(*(p.names for p in parts.values()))
        if self.refused_with.get(name) == names:
            return False
        label = f"{name} into {', '.join(self.readers[name])}"
        chosen = self._chosen(name, label, names, tuple(parts.values()))
        if chosen is None:
            self.refused_with[name] = names
            return False
        self.levels[name], tiled = chosen
        kept = self._joined(names)
        assert isinstance(kept, Joined)
        part = _Part(names, kept.group, tiled or any(p.tiled for p in parts.values()))
        self.part_of |= dict.fromkeys(names, part)
        return True

    def _chosen(
        self, name: str, label: str, names: frozenset[str], parts: Sequence[_Part]
    ) -> tuple[str, bool] | None:
        """The level with the least latency, and whether tiles told so; None to stay apart."""
        both = self._joined(names)
        if isinstance(both, Refusal):
            self.steps[name] = (refused(label, both),)
            return None
        if name not in self.facts.connect:
            told = unpriced(both.merges[name], self.facts)
            if told is not None:
                self.steps[name] = (replace(told, label=f"{label} in {REGISTER}"),)
                return None if told.refused else (REGISTER, False)
        found = self._tuned(both.group)
        if isinstance(found, Refusal):
            self.steps[name] = (refused(label, found),)
            return None
        apart = sum(map(self._us, parts))
        if found.us >= apart and name not in self.facts.connect:
            terms = (("apart", -apart), ("welded", found.us))
            self.steps[name] = (refused(label, no_gain(found.us - apart, apart), terms),)
            return None
        tried = self._tried(label, name, both, found, apart)
        order = sorted(tried, key=lambda t: (bool(t[0].refused), t[0].cost_us, t[1]))
        self.steps[name] = tuple(c for c, _, _ in order)
        best, _, level = order[0]
        return None if best.refused else (level, True)

    def _us(self, part: _Part) -> float:
        """The time of a sub-graph at its best tile, or where none has room as Roller cuts it."""
        found = self._tuned(part.group) if is_whole(part.group) else None
        if isinstance(found, Tuned):
            return found.us
        return self.facts.price(part.group.kernel, self.facts.env)

    def _joined(self, names: frozenset[str]) -> Joined | Refusal:
        whole = [n for n in names if not is_whole(self.kernels[n])]
        if whole and len(names) > 1:
            text = f"{whole[0]} writes a part of a larger tensor"
            return Refusal("parts", 2, 1, text, "one compute that writes all of it")
        return join(names, self.kernels, self.facts, self.levels)

    def _tried(
        self, label: str, name: str, both: Joined, found: Tuned, apart: float
    ) -> list[tuple[Candidate[bool], float, str]]:
        """The edge at every level of a unit's own memories: the time, and what the layers inside of
        a task move; or why not.
        """
        known = memories(self.facts.device)
        wanted = self.facts.connect.get(name)
        terms = (("apart", -apart), ("welded", found.us))
        out: list[tuple[Candidate[bool], float, str]] = []
        for at, memory in enumerate(known[: task_level(self.facts.device) + 1]):
            if wanted in (None, memory.name):
                words = f"{label} in {memory.name}"
                inside = self._at(at, name, both, found)
                why = inside if isinstance(inside, Refusal) else None
                chosen = Candidate(words, True, terms)
                moved = inf if isinstance(inside, Refusal) else inside
                verdict = chosen if why is None else refused(words, why, terms)
                out.append((verdict, moved, memory.name))
        if not out:
            change = f"connect it in {known[task_level(self.facts.device)].name}"
            text = f"{wanted} is no memory of a unit's own"
            out.append((refused(label, Refusal("level", 0, 1, text, change)), inf, ""))
        return out

    def _at(self, at: int, name: str, both: Joined, found: Tuned) -> Refusal | float:
        """One edge in one memory, under the best tile: what the layers inside of a task move, in
        microseconds; or why that memory cannot be.
        """
        known = memories(self.facts.device)
        kernel = bind_kernel(both.group.kernel, sizes_of(both.group.kernel, self.facts.env))
        inner = {link.tensor: link for link in links(kernel)}
        mine = inner.get(both.tensors.get(name, ""))
        if mine is not None and at < mine.near:
            text = f"it is used in other places than its own, so {known[at].name} cannot hold it"
            change = f"connect it in {known[mine.near].name}"
            return Refusal("nearness", at, mine.near, text, change)
        levels = self._numbers(inner, both, name, at)
        layer = layers(kernel, self.facts.device, found.best, levels)
        if isinstance(layer, Layer):
            return layer.us
        held, room = layer.held_bytes, layer.room_bytes or 0
        text = f"a tile nearer than that holds {in_words(held)}, and there are {in_words(room)}"
        change = f"{room / max(1, held):.2g} of the rows would fit"
        return Refusal("capacity", held, room, text, change)

    def _numbers(
        self, inner: Mapping[str, Link], both: Joined, name: str, at: int
    ) -> dict[str, int]:
        """The memory of every tensor inside, by number: where its edge is connected; what a kernel
        had inside before, as near as it can be.
        """
        names = [m.name for m in memories(self.facts.device)]
        value_of = {t: v for v, t in both.tensors.items()}
        out = {}
        for tensor, link in inner.items():
            value = value_of.get(tensor)
            level = at if value == name else link.near
            if value in self.levels:
                level = names.index(self.levels[value])
            out[tensor] = min(max(level, link.near), task_level(self.facts.device))
        return out

    def _tuned(self, group: Group) -> Tuned | Refusal:
        return tuned(group.kernel, self.facts, task_tiles, "two_step")

    def groups(self) -> Sequence[Group]:
        """Each sub-graph as a group, with all that was weighed for its values; with a tile where
        tiles decided, else that is left to Roller.
        """
        out = []
        for part in {id(p): p for p in self.part_of.values()}.values():
            order = sorted(part.names, key=lambda n: self.kernels[n].number)
            steps = tuple(c for n in order for c in self.steps.get(n, ()))
            found = self._tuned(part.group) if part.tiled else None
            tile = found.best if isinstance(found, Tuned) else None
            out.append(replace(part.group, steps=steps, tile=tile))
        return tuple(sorted(out, key=lambda g: g.number))
