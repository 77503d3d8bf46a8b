"""The grouping policies that have a name.

"gain" is the default because it measured better: it takes 1/1.04 of the time of "two_step" and
"shipped" in the geometric mean of five models (tiny BERT, ResNet-18 and MobileNetV2, a reduced ViT,
SqueezeNet; two threads, one machine); on the ViT "two_step" is quicker by 1.08. It rejects merges
that measured as not worth it (`rejected_by_heuristic`). The two others do not: they follow the
paper and its artifact, priced by the same model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType

from explorer.ir.decisions.candidate import Candidate
from explorer.welder.groups.groups import Facts, Group
from explorer.welder.policies.artifact_policy import artifact_policy
from explorer.welder.policies.two_step import two_step
from explorer.welder.policy import ByPairs, judge_gain

Policy = Callable[[Sequence[Group], Facts], Sequence[Group]]

POLICIES: MappingProxyType[str, Policy] = MappingProxyType(
    {
        "gain": ByPairs(judge_gain),
        "two_step": two_step,
        "shipped": artifact_policy,
    }
)
DEFAULT = "gain"


def policy_of(policy: str | Policy) -> Policy:
    """Return the policy of that name, or the function itself."""
    return POLICIES[policy] if isinstance(policy, str) else policy


def no_fusion(kernels: Sequence[Group], facts: Facts) -> Sequence[Group]:
    """Return every kernel as a group of its own."""
    names = {k.name for k in kernels}

    def steps(kernel: Group) -> tuple[Candidate[bool], ...]:
        return tuple(
            Candidate(f"{a.name} into {kernel.name}", False, refused="fusion is switched off")
            for a in kernel.args
            if a.name in names
        )

    return tuple(replace(k, steps=steps(k)) for k in kernels)
