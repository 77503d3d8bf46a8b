"""What Welder may be told."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.passes.pipeline import ranges
from explorer.passes.pipeline.own_policy import policy_name
from explorer.welder.named_policies import DEFAULT, POLICIES, Policy


@dataclass(frozen=True, slots=True)
class Options:
    """`policy` is a name of `POLICIES`, or a function. `connect` puts values at a memory level by
    hand, ((value, level), ...): "DRAM" keeps its kernels apart, any other level joins them where
    that is legal.
    """

    enabled: bool = True
    policy: str | Policy = DEFAULT
    connect: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        ranges.switch("welder.enabled", self.enabled)
        policy = ranges.policy("welder.policy", self.policy, POLICIES)
        object.__setattr__(self, "policy", policy)
        ranges.rows("welder.connect", self.connect, (str, str), "pairs of a value and a level")

    @property
    def name(self) -> str:
        """What the policy is called."""
        return policy_name(self.policy)
