"""The "gain" policy: fuse pairs of kernels in program order if they save more than they cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from explorer.ir.calls import Var
from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.passes.policy_call import PolicyCall
from explorer.process.cancellation import report_progress
from explorer.process.user_code import a, shown
from explorer.transforms.rewrite import is_recorded, record_match
from explorer.welder.groups import Facts, Group, Merge, Merged, absorb, merge_kernels
from explorer.welder.heuristics import evicted_us, halo, is_window, rejected_by_heuristic
from explorer.welder.model import bytes_at_hint, form_of, home, is_point, is_row, loads_of
from explorer.welder.recompute_columns import in_blocks, recompute_columns
from explorer.welder.refusals import early_refusal, illegal_merge, no_gain
from explorer.welder.tiles.reduce_steps import no_legal_tile

Terms = tuple[tuple[str, float], ...]
Verdict = Callable[[Merge, Facts], Candidate[bool]]


@dataclass(frozen=True, slots=True)
class ByPairs:
    """Greedy grouping: each kernel in program order absorbs the producers that `verdict` accepts.

    The latest producer is tried first.
    """

    verdict: Verdict

    def __call__(self, kernels: Sequence[Group], facts: Facts) -> Sequence[Group]:
        """Return the groups in program order, each with the merges that were weighed for it."""
        groups: dict[str, Group] = {}
        for number, kernel in enumerate(kernels):
            report_progress(f"fuse (Welder): {kernel.name}", number, len(kernels))
            groups[kernel.name] = self._absorb(kernel, groups, facts)
        return recompute_columns(groups, facts)

    def _absorb(self, group: Group, groups: dict[str, Group], facts: Facts) -> Group:
        """Absorb producers for as long as one is worth it, and remove them from `groups`."""
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
            group = absorb(group, producer, arg, both, facts.device, by_hand)
            if is_recorded():
                pair = (producer.binding, before.binding)
                record_match(self.verdict, pair, (group.binding,), "fuse two kernels")
            refused.clear()

    def _weigh(
        self, group: Group, producer: Group, arg: Var, facts: Facts
    ) -> tuple[Candidate[bool], Merged | None]:
        """Return the verdict on a producer, and the merged kernel if it is accepted."""
        label = f"{producer.members[-1]} into {group.members[-1]}"
        why = early_refusal(group, producer, arg.name, facts)
        if why is not None:
            return refused(label, why), None
        both = merge_kernels(group, producer, arg, facts.env)
        if form_of(producer.kernel).contractions and form_of(group.kernel).is_map:
            both = in_blocks(both, facts)
        merge = Merge(producer.kernel, group.kernel, both.tensor, both.kernel)
        why = illegal_merge(merge)
        if why is not None:
            return refused(label, why), None
        judged = self.verdict(merge, facts)
        if not isinstance(judged, Candidate) or not isinstance(judged.refused, str):
            policy_call = PolicyCall("Welder", self.verdict, f"{label!r}")
            raise policy_call.refused(
                f"returned {a(judged)}, and must return a Candidate", actual=shown(judged)
            )
        verdict = replace(judged, label=label)
        if verdict.refused and arg.name in facts.connect:
            verdict = Candidate(label, True, verdict.terms)
        return verdict, None if verdict.refused else both


def refused(label: str, why: Refusal, terms: Terms = ()) -> Candidate[bool]:
    """Return a candidate that is not taken."""
    return Candidate(label, False, terms, why.words, why)


def judge_gain(merge: Merge, facts: Facts) -> Candidate[bool]:
    """Return the modelled change in time, in named terms (below zero is a gain), or the refusal.

    Neighbouring tiles both compute what both need. A merge that could not gain because of that is
    refused without a price. Otherwise it is priced, with the repeated work as a term.
    """
    why = rejected_by_heuristic(merge, facts)
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
    overlap = halo(merge, facts)
    if overlap is not None:
        terms[1:2] = [("welded", after - overlap.least_us), ("halo recomputed", overlap.least_us)]
    evicted = evicted_us(merge, facts)
    if evicted:
        terms.append((f"{facts.device.levels[-1].name} traffic", -evicted))
    return judge_terms(tuple(terms))


def unpriced(merge: Merge, facts: Facts) -> Candidate[bool] | None:
    """Return the verdict on a merge that needs no price, else None.

    It is accepted if it leaves every tile as it was, and refused if the repeated work costs more
    than could be saved.
    """
    least = least_terms(merge, facts)
    if is_pointwise(merge):
        return judge_terms(least)
    overlap = halo(merge, facts)
    if overlap is None:
        return None
    bound = (*least, ("halo recomputed", overlap.least_us))
    return judge_terms(bound) if sum(us for _, us in bound) >= 0 else None


def least_terms(merge: Merge, facts: Facts) -> Terms:
    """Return the most that a merge saves: the value is neither stored nor loaded."""
    device = facts.device
    size = bytes_at_hint(merge.consumer, merge.tensor, facts.env)
    level = home(device, size)
    saved = -2 * size / (device.all_gb_per_s(device.level(level)) * 1e3)
    return ((f"{level} traffic", saved), ("barrier", -device.barrier_us))


def judge_terms(terms: Terms) -> Candidate[bool]:
    """Return an accepted candidate if the terms are a gain in total, else a refused one."""
    gain = sum(us for _, us in terms)
    if gain < 0:
        return Candidate("", True, terms)
    return refused("", no_gain(gain, -sum(min(0.0, us) for _, us in terms)), terms)


def is_pointwise(merge: Merge) -> bool:
    """Return True if the merge leaves every tile as it was: one part is an element-wise map."""
    loads = loads_of(merge.welded, merge.tensor)
    if form_of(merge.producer).is_map:
        across = len(loads) > 1 and any(c.reduce and not is_row(r, c) for c, r in loads)
        return not across and not any(is_window(r, c) for c, r in loads)
    return form_of(merge.consumer).is_map and all(is_point(r, c) for c, r in loads)


BY_GAIN = ByPairs(judge_gain)
