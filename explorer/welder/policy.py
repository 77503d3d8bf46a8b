"""Whether two kernels should share their tiles: what it saves in memory traffic and what it costs
("gain"), asked of one pair after the other in program order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from explorer.ir.calls import Var
from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.passes.pipeline.own_policy import Asked, a, shown
from explorer.passes.pipeline.progress import told
from explorer.passes.rewrite_trace import is_recorded, matched
from explorer.welder.groups.duplicated_columns import in_blocks, spread
from explorer.welder.groups.eviction import evicted_us
from explorer.welder.groups.groups import Facts, Group, Merge, Merged, merged, taken
from explorer.welder.groups.halo import halo
from explorer.welder.groups.heuristics import unwise
from explorer.welder.groups.refusals import before_merging, impossible, no_gain
from explorer.welder.groups.windows import is_window
from explorer.welder.model import bytes_at_hint, form_of, home, is_point, is_row, loads_of
from explorer.welder.tiles.capacity import no_legal_tile

Terms = tuple[tuple[str, float], ...]
Verdict = Callable[[Merge, Facts], Candidate[bool]]


@dataclass(frozen=True, slots=True)
class ByPairs:
    """Greedy grouping: each kernel in program order takes in the producers that `verdict` is for,
    the latest first.
    """

    verdict: Verdict

    def __call__(self, kernels: Sequence[Group], facts: Facts) -> Sequence[Group]:
        """The groups in program order, each with the merges that were weighed for it."""
        groups: dict[str, Group] = {}
        for number, kernel in enumerate(kernels):
            told(f"weld: {kernel.name}", number, len(kernels))
            groups[kernel.name] = self._absorbed(kernel, groups, facts)
        return spread(groups, facts)

    def _absorbed(self, group: Group, groups: dict[str, Group], facts: Facts) -> Group:
        """The group with producers for as long as one is worth it; these are taken away."""
        refused: set[str] = set()
        while True:
            ready = [a for a in group.args if a.name in groups and a.name not in refused]
            if not ready:
                return group
            arg = max(ready, key=lambda a: groups[a.name].number)
            verdict, both = self._weigh(group, groups[arg.name], arg, facts)
            group = replace(group, steps=(*group.steps, verdict))
            if both is None:
                refused.add(arg.name)
                continue
            by_hand = facts.connect.get(arg.name, "")
            producer = groups.pop(arg.name)
            before = group
            group = taken(group, producer, arg, both, facts.device, by_hand)
            if is_recorded():
                pair = (producer.binding, before.binding)
                matched(self.verdict, pair, (group.binding,), "weld two kernels")
            refused.clear()

    def _weigh(
        self, group: Group, producer: Group, arg: Var, facts: Facts
    ) -> tuple[Candidate[bool], Merged | None]:
        """The verdict on a producer, and what both would be, where that is worth it."""
        label = f"{producer.members[-1]} into {group.members[-1]}"
        why = before_merging(group, producer, arg.name, facts)
        if why is not None:
            return refused(label, why), None
        both = merged(group, producer, arg, facts.env)
        if form_of(producer.kernel).contractions and form_of(group.kernel).is_map:
            both = in_blocks(both, facts)
        merge = Merge(producer.kernel, group.kernel, both.tensor, both.kernel)
        why = impossible(merge)
        if why is not None:
            return refused(label, why), None
        judged = self.verdict(merge, facts)
        if not isinstance(judged, Candidate) or not isinstance(judged.refused, str):
            asked = Asked("Welder", self.verdict, f"{label!r}")
            raise asked.refused(f"gave {a(judged)}, and must give a Candidate", found=shown(judged))
        verdict = replace(judged, label=label)
        if verdict.refused and arg.name in facts.connect:
            verdict = Candidate(label, True, verdict.terms)
        return verdict, None if verdict.refused else both


def refused(label: str, why: Refusal, terms: Terms = ()) -> Candidate[bool]:
    """A choice that is not taken."""
    return Candidate(label, False, terms, why.words, why)


def gained(merge: Merge, facts: Facts) -> Candidate[bool]:
    """The modelled change in time, in named terms (below zero is a gain), or the reason why not.

    What neighbouring tiles both need is computed by both: where nobody could gain by that it is
    told without a price, else it is priced, with the work that is done again as a term.
    """
    why = unwise(merge, facts)
    if why is not None:
        return refused("", why)
    free = unpriced(merge, facts)
    if free is not None:
        return free
    env, barrier = facts.env, facts.device.barrier_us
    before = facts.price(merge.producer, env) + facts.price(merge.consumer, env)
    after = facts.price(merge.welded, env)
    if after == float("inf"):
        return refused("", no_legal_tile(merge.welded, facts.device, env))
    terms = [("apart", -before), ("welded", after), ("barrier", -barrier)]
    again = halo(merge, facts)
    if again is not None:
        terms[1:2] = [("welded", after - again.least_us), ("halo done again", again.least_us)]
    evicted = evicted_us(merge, facts)
    if evicted:
        terms.append((f"{facts.device.levels[-1].name} traffic", -evicted))
    return decided(tuple(terms))


def unpriced(merge: Merge, facts: Facts) -> Candidate[bool] | None:
    """The verdict on a merge that needs no price: taken where it leaves every tile as it was, not
    taken where what is done again costs more than what could be saved. None where neither is so.
    """
    least = least_terms(merge, facts)
    if is_pointwise(merge):
        return decided(least)
    again = halo(merge, facts)
    if again is None:
        return None
    bound = (*least, ("halo done again", again.least_us))
    return decided(bound) if sum(us for _, us in bound) >= 0 else None


def least_terms(merge: Merge, facts: Facts) -> Terms:
    """What a merge saves at most: the value is neither stored nor loaded, nobody waits for it."""
    device = facts.device
    size = bytes_at_hint(merge.consumer, merge.tensor, facts.env)
    level = home(device, size)
    saved = -2 * size / (device.all_gb_per_s(device.level(level)) * 1e3)
    return ((f"{level} traffic", saved), ("barrier", -device.barrier_us))


def decided(terms: Terms) -> Candidate[bool]:
    """Taken where the terms are a gain, all together."""
    gain = sum(us for _, us in terms)
    if gain < 0:
        return Candidate("", True, terms)
    return refused("", no_gain(gain, -sum(min(0.0, us) for _, us in terms)), terms)


def is_pointwise(merge: Merge) -> bool:
    """Whether the merge leaves every tile as it was: one side only maps, element by element."""
    loads = loads_of(merge.welded, merge.tensor)
    if form_of(merge.producer).is_map:
        across = len(loads) > 1 and any(c.reduce and not is_row(r, c) for c, r in loads)
        return not across and not any(is_window(r, c) for c, r in loads)
    return form_of(merge.consumer).is_map and all(is_point(r, c) for c, r in loads)
