"""Several kernels as one group, whatever a policy wants them for; or why they cannot be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from explorer.ir.decisions.candidate import Refusal
from explorer.welder.groups.groups import Facts, Group, Merge, merged, taken
from explorer.welder.groups.refusals import before_merging, impossible
from explorer.welder.model import form_of
from explorer.welder.policy import is_pointwise
from explorer.welder.tiles.levels import REGISTER
from explorer.welder.tiles.tile_costs import holder


@dataclass(frozen=True, slots=True)
class Joined:
    """A group that was made of several kernels. `tensors`: what the kernel calls each value that is
    handed over inside, where it is still a tensor; `merges`: how each came in.
    """

    group: Group
    tensors: Mapping[str, str] = field(default_factory=dict)
    merges: Mapping[str, Merge] = field(default_factory=dict)


def join(
    names: Collection[str],
    kernels: Mapping[str, Group],
    facts: Facts,
    levels: Mapping[str, str] | None = None,
) -> Joined | Refusal:
    """The kernels of these names as one, which stores what the last of them does and nothing else.
    `levels`: where values are handed over; else in registers where each is used at its own point.
    """
    order = sorted(names, key=lambda n: kernels[n].number)
    group, merges = kernels[order.pop()], dict[str, Merge]()
    while order:
        producer = kernels[order.pop()]
        arg = next((a for a in group.args if a.name == producer.name), None)
        if arg is None:
            return _two_outputs(producer, group)
        why = before_merging(group, producer, producer.name, facts)
        if why is not None:
            return why
        both = merged(group, producer, arg, facts.env)
        merge = Merge(producer.kernel, group.kernel, both.tensor, both.kernel)
        why = impossible(merge)
        if why is not None:
            return why
        merges[producer.name] = merge
        near = REGISTER if is_pointwise(merge) else holder(facts.device).name
        level = (levels or {}).get(producer.name, near)
        group = taken(group, producer, arg, both, facts.device, level)
    made = {c.out for c in group.kernel.computes}
    return Joined(group, {v: m.tensor for v, m in merges.items() if m.tensor in made}, merges)


def _two_outputs(producer: Group, group: Group) -> Refusal:
    text = f"{producer.name} and {group.name} would both be stored, and a kernel stores one tensor"
    return Refusal("outputs", 2, 1, text, f"join what reads {producer.name} too")


def is_whole(kernel: Group) -> bool:
    """Whether a kernel writes all of its output by itself, so that it can have company."""
    alone = len(kernel.kernel.outputs) == 1 and not kernel.kernel.updates
    return alone and form_of(kernel.kernel).parts == 1
