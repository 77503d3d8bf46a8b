"""Options of Welder, and the grouping policies that have a name.

"gain" is the default because it measured better: it takes 1/1.04 of the time of "two_step" and
"shipped" in the geometric mean of five models (tiny BERT, ResNet-18 and MobileNetV2, a reduced ViT,
SqueezeNet; two threads, one machine); on the ViT "two_step" is quicker by 1.08. It rejects merges
that measured as not worth it (`rejected_by_heuristic`). The two others do not: they follow the
paper and its artifact, priced by the same model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.ir.decisions.candidate import Candidate
from explorer.passes.policy_call import ShippedPolicies, policy_name
from explorer.passes.ranges import PolicyOf, Rows, Switch, check, option
from explorer.welder.groups import Facts, Group

Policy = Callable[[Sequence[Group], Facts], Sequence[Group]]

POLICIES: Mapping[str, Policy] = ShippedPolicies(
    {
        "gain": "explorer.welder.policy.BY_GAIN",
        "two_step": "explorer.welder.two_step.two_step",
        "shipped": "explorer.welder.artifact_policy.artifact_policy",
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


@dataclass(frozen=True, slots=True)
class Options:
    """Options of Welder.

    `policy` is a name of `POLICIES`, or a function. `connect` puts values at a memory level by
    hand, ((value, level), ...): "DRAM" keeps its kernels separate, any other level fuses them if
    that is legal.
    """

    enabled: bool = option(True, Switch(), "fuse kernels")
    policy: str | Policy = option(DEFAULT, PolicyOf("welder", POLICIES), "fusion policy")
    connect: tuple[tuple[str, str], ...] = option(
        (), Rows((str, str), "pairs of a value and a level"), "values put at a memory level by hand"
    )

    def __post_init__(self) -> None:
        """Check the options; BadOption if one is invalid."""
        check("welder", self)

    @property
    def name(self) -> str:
        """The display name of the policy."""
        return policy_name(self.policy)
