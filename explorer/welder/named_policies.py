"""The ways to group kernels that have a name.

"gain" is the default because it measured better: it takes 1/1.04 of the time of "two_step" and
"shipped" in the geometric mean of five models (tiny BERT, ResNet-18 and MobileNetV2, a reduced ViT,
SqueezeNet; two threads, one machine); on the ViT "two_step" is quicker by 1.08. It knows what
measured as not worth it (`unwise`), which the two others do not: they are what the paper and its
artifact say, priced by the same model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType

from explorer.ir.decisions.candidate import Candidate
from explorer.welder.groups.groups import Facts, Group
from explorer.welder.policies.published_policy import shipped
from explorer.welder.policies.two_step import two_step
from explorer.welder.policy import ByPairs, gained

Policy = Callable[[Sequence[Group], Facts], Sequence[Group]]

POLICIES: MappingProxyType[str, Policy] = MappingProxyType(
    {
        "gain": ByPairs(gained),
        "two_step": two_step,
        "shipped": shipped,
    }
)
DEFAULT = "gain"


def policy_of(policy: str | Policy) -> Policy:
    """The policy of that name, or the function itself."""
    return POLICIES[policy] if isinstance(policy, str) else policy


def apart(kernels: Sequence[Group], facts: Facts) -> Sequence[Group]:
    """Every kernel stays alone."""
    made = {k.name for k in kernels}

    def steps(kernel: Group) -> tuple[Candidate[bool], ...]:
        return tuple(
            Candidate(f"{a.name} into {kernel.name}", False, refused="fusion is switched off")
            for a in kernel.args
            if a.name in made
        )

    return tuple(replace(k, steps=steps(k)) for k in kernels)
