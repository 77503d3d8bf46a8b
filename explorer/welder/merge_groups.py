"""Merging of several kernels into one group, or the refusal."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from explorer.ir.decisions.candidate import Refusal
from explorer.welder.groups import Facts, Group, Merge, absorb, merge_kernels
from explorer.welder.model import form_of
from explorer.welder.policy import is_pointwise
from explorer.welder.refusals import early_refusal, illegal_merge
from explorer.welder.tiles.levels import REGISTER
from explorer.welder.tiles.tile_costs import holder


@dataclass(frozen=True, slots=True)
class MergedGroup:
    """A group of several kernels.

    `tensors`: the kernel's tensor of each internal value, if it still has one; `merges`: how each
    kernel came in.
    """

    group: Group
    tensors: Mapping[str, str] = field(default_factory=dict)
    merges: Mapping[str, Merge] = field(default_factory=dict)


def merge_groups(
    names: Collection[str],
    kernels: Mapping[str, Group],
    facts: Facts,
    levels: Mapping[str, str] | None = None,
) -> MergedGroup | Refusal:
    """Return the kernels of these names as one group, which stores the result of the last one only.

    `levels`: the memories through which values pass; by default registers where each is used at its
    own point.
    """
    order = sorted(names, key=lambda n: kernels[n].number)
    group, merges = kernels[order.pop()], dict[str, Merge]()
    while order:
        producer = kernels[order.pop()]
        arg = next((a for a in group.args if a.name == producer.name), None)
        if arg is None:
            return _two_outputs(producer, group)
        why = early_refusal(group, producer, producer.name, facts)
        if why is not None:
            return why
        both = merge_kernels(group, producer, arg, facts.env)
        merge = Merge(producer.kernel, group.kernel, both.tensor, both.kernel)
        why = illegal_merge(merge)
        if why is not None:
            return why
        merges[producer.name] = merge
        near = REGISTER if is_pointwise(merge) else holder(facts.device).name
        level = (levels or {}).get(producer.name, near)
        group = absorb(group, producer, arg, both, facts.device, level)
    internal = {c.out for c in group.kernel.computes}
    return MergedGroup(
        group, {v: m.tensor for v, m in merges.items() if m.tensor in internal}, merges
    )


def _two_outputs(producer: Group, group: Group) -> Refusal:
    text = f"{producer.name} and {group.name} would both be stored, and a kernel stores one tensor"
    return Refusal("outputs", 2, 1, text, f"join what reads {producer.name} too")


def is_whole(kernel: Group) -> bool:
    """Return True if a kernel writes all of its only output, so that it can be merged."""
    alone = len(kernel.kernel.outputs) == 1 and not kernel.kernel.updates
    return alone and form_of(kernel.kernel).parts == 1
