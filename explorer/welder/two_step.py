"""The paper's two-step policy ("two_step"): GraphConnecting over SubGraphTiling (Welder, figure 7).

The literal recursion is not in the artifact, whose engine groups greedily ("shipped"). A value is
one edge to all of its readers, since a kernel of ours stores one tensor; that is why edges are
weighed again when later ones have been connected.

"Least latency" compares the group with its parts, by Roller's model on a CPU and by traffic and
arithmetic on a GPU. Of levels with equal latency the one wins that moves least between the memories
inside of a task. An edge that leaves every tile as it was is connected in registers. One whose
traffic cannot gain is refused. Both need no search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from explorer.cost.bind_kernel import bind_kernel, sizes_of
from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.welder.groups import Facts, Group
from explorer.welder.merge_groups import MergedGroup, is_whole, merge_groups
from explorer.welder.policy import refused, unpriced
from explorer.welder.refusals import no_gain
from explorer.welder.tiles.layers import Layer, layers, task_level, task_tiles
from explorer.welder.tiles.levels import REGISTER, memories
from explorer.welder.tiles.reduce_steps import in_words
from explorer.welder.tiles.tile_graph import Link, links
from explorer.welder.tune_merges import Tuned, tune

MOST_SWEEPS = 3  # over all edges, while one changes something: a bound on search time


def two_step(kernels: Sequence[Group], facts: Facts) -> Sequence[Group]:
    """Return groups in program order: each value passes at the level with the least latency."""
    connecting = _Connecting(facts, {k.name: k for k in kernels})
    connecting.begin()
    while connecting.sweeps < MOST_SWEEPS and connecting.sweep():
        pass
    return connecting.groups()


@dataclass(frozen=True, slots=True)
class _SubGraph:
    """A connected sub-graph: its kernels, and their group.

    `tiled`: an edge of it was weighed by its tiles.
    """

    names: frozenset[str]
    group: Group
    tiled: bool = False


@dataclass(slots=True)
class _Connecting:
    """The levels of edges so far, and the sub-graphs that follow."""

    facts: Facts
    kernels: dict[str, Group]
    readers: dict[str, list[str]] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)  # of the values that are connected
    part_of: dict[str, _SubGraph] = field(default_factory=dict)
    steps: dict[str, tuple[Candidate[bool], ...]] = field(default_factory=dict)  # by value
    refused_with: dict[str, frozenset[str]] = field(default_factory=dict)
    sweeps: int = 0

    def begin(self) -> None:
        """Put every edge at level 0: each kernel is a sub-graph of its own."""
        for name, kernel in self.kernels.items():
            for a in dict.fromkeys(kernel.args):
                if a.name in self.kernels:
                    self.readers.setdefault(a.name, []).append(name)
            self.part_of[name] = _SubGraph(frozenset((name,)), kernel)

    def sweep(self) -> bool:
        """Weigh every edge that is not connected, in program order; return True if any was."""
        changed = False
        self.sweeps += 1
        for name in self.kernels:
            if name in self.readers and name not in self.levels:
                changed |= self._connect(name)
        return changed

    def _connect(self, name: str) -> bool:
        """Weigh one edge between the sub-graphs as they are, unless these are unchanged."""
        parts = {id(p): p for n in (name, *self.readers[name]) for p in (self.part_of[n],)}
        names = frozenset[str]().union(*(p.names for p in parts.values()))
        if self.refused_with.get(name) == names:
            return False
        label = f"{name} into {', '.join(self.readers[name])}"
        chosen = self._choose_level(name, label, names, tuple(parts.values()))
        if chosen is None:
            self.refused_with[name] = names
            return False
        self.levels[name], tiled = chosen
        merged = self._merge(names)
        assert isinstance(merged, MergedGroup)
        part = _SubGraph(names, merged.group, tiled or any(p.tiled for p in parts.values()))
        self.part_of |= dict.fromkeys(names, part)
        return True

    def _choose_level(
        self, name: str, label: str, names: frozenset[str], parts: Sequence[_SubGraph]
    ) -> tuple[str, bool] | None:
        """Return the level with the least latency, and True if tiles decided; else None."""
        both = self._merge(names)
        if isinstance(both, Refusal):
            self.steps[name] = (refused(label, both),)
            return None
        if name not in self.facts.connect:
            free_verdict = unpriced(both.merges[name], self.facts)
            if free_verdict is not None:
                self.steps[name] = (replace(free_verdict, label=f"{label} in {REGISTER}"),)
                return None if free_verdict.refused else (REGISTER, False)
        tuning = self._tune(both.group)
        if isinstance(tuning, Refusal):
            self.steps[name] = (refused(label, tuning),)
            return None
        apart = sum(map(self._us, parts))
        if tuning.us >= apart and name not in self.facts.connect:
            terms = (("apart", -apart), ("welded", tuning.us))
            self.steps[name] = (refused(label, no_gain(tuning.us - apart, apart), terms),)
            return None
        tried = self._weigh_levels(label, name, both, tuning, apart)
        order = sorted(tried, key=lambda t: (bool(t[0].refused), t[0].cost_us, t[1]))
        self.steps[name] = tuple(c for c, _, _ in order)
        best, _, level = order[0]
        return None if best.refused else (level, True)

    def _us(self, part: _SubGraph) -> float:
        """Return the time of a sub-graph at its best tile, or if none fits as Roller tiles it."""
        tuning = self._tune(part.group) if is_whole(part.group) else None
        if isinstance(tuning, Tuned):
            return tuning.us
        return self.facts.price(part.group.kernel, self.facts.env)

    def _merge(self, names: frozenset[str]) -> MergedGroup | Refusal:
        partial = [n for n in names if not is_whole(self.kernels[n])]
        if partial and len(names) > 1:
            text = f"{partial[0]} writes a part of a larger tensor"
            return Refusal("parts", 2, 1, text, "one compute that writes all of it")
        return merge_groups(names, self.kernels, self.facts, self.levels)

    def _weigh_levels(
        self, label: str, name: str, both: MergedGroup, tuning: Tuned, apart: float
    ) -> list[tuple[Candidate[bool], float, str]]:
        """Weigh an edge at every level of a unit's own memories.

        Each has the time, and what the layers inside of a task move, or the refusal.
        """
        levels = memories(self.facts.device)
        wanted = self.facts.connect.get(name)
        terms = (("apart", -apart), ("welded", tuning.us))
        out: list[tuple[Candidate[bool], float, str]] = []
        for at, memory in enumerate(levels[: task_level(self.facts.device) + 1]):
            if wanted in (None, memory.name):
                words = f"{label} in {memory.name}"
                inside = self._weigh_level(at, name, both, tuning)
                why = inside if isinstance(inside, Refusal) else None
                chosen = Candidate(words, True, terms)
                moved = inf if isinstance(inside, Refusal) else inside
                verdict = chosen if why is None else refused(words, why, terms)
                out.append((verdict, moved, memory.name))
        if not out:
            change = f"connect it in {levels[task_level(self.facts.device)].name}"
            text = f"{wanted} is not a private memory of a unit"
            out.append((refused(label, Refusal("level", 0, 1, text, change)), inf, ""))
        return out

    def _weigh_level(self, at: int, name: str, both: MergedGroup, tuning: Tuned) -> Refusal | float:
        """Return what layers inside of a task move, in microseconds, for an edge in a memory.

        It is under the best tile; return the refusal if that memory is not possible.
        """
        levels_of_device = memories(self.facts.device)
        kernel = bind_kernel(both.group.kernel, sizes_of(both.group.kernel, self.facts.env))
        inner = {link.tensor: link for link in links(kernel)}
        mine = inner.get(both.tensors.get(name, ""))
        if mine is not None and at < mine.near:
            memory = levels_of_device[at].name
            text = f"it is read at other indices than it is written, so {memory} cannot hold it"
            change = f"connect it in {levels_of_device[mine.near].name}"
            return Refusal("nearness", at, mine.near, text, change)
        levels = self._numbers(inner, both, name, at)
        layer = layers(kernel, self.facts.device, tuning.best, levels)
        if isinstance(layer, Layer):
            return layer.us
        held_bytes, room = layer.held_bytes, layer.room_bytes or 0
        text = (
            f"a tile nearer than that holds {in_words(held_bytes)}, and there are {in_words(room)}"
        )
        change = f"{room / max(1, held_bytes):.2g} of the rows would fit"
        return Refusal("capacity", held_bytes, room, text, change)

    def _numbers(
        self, inner: Mapping[str, Link], both: MergedGroup, name: str, at: int
    ) -> dict[str, int]:
        """Return the number of the memory of every internal tensor.

        It is where its edge is connected; for tensors internal to a kernel before, as near as
        possible.
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

    def _tune(self, group: Group) -> Tuned | Refusal:
        return tune(group.kernel, self.facts, task_tiles, "two_step")

    def groups(self) -> Sequence[Group]:
        """Return each sub-graph as a group, with all candidates weighed for its values.

        It has a tile if tiles decided; otherwise Roller chooses one.
        """
        out = []
        for part in {id(p): p for p in self.part_of.values()}.values():
            order = sorted(part.names, key=lambda n: self.kernels[n].number)
            steps = tuple(c for n in order for c in self.steps.get(n, ()))
            tuning = self._tune(part.group) if part.tiled else None
            tile = tuning.best if isinstance(tuning, Tuned) else None
            out.append(replace(part.group, steps=steps, tile=tile))
        return tuple(sorted(out, key=lambda g: g.number))
