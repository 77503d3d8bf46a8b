"""What Welder may be told."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.passes.pipeline.own_policy import policy_name
from explorer.passes.pipeline.ranges import PolicyOf, Rows, Switch, check, option
from explorer.welder.named_policies import DEFAULT, POLICIES, Policy


@dataclass(frozen=True, slots=True)
class Options:
    """`policy` is a name of `POLICIES`, or a function. `connect` puts values at a memory level by
    hand, ((value, level), ...): "DRAM" keeps its kernels apart, any other level joins them where
    that is legal.
    """

    enabled: bool = option(True, Switch(), "kernels are joined at all")
    policy: str | Policy = option(DEFAULT, PolicyOf("welder", POLICIES), "how kernels are joined")
    connect: tuple[tuple[str, str], ...] = option(
        (), Rows((str, str), "pairs of a value and a level"), "values put at a memory level by hand"
    )

    def __post_init__(self) -> None:
        check("welder", self)

    @property
    def name(self) -> str:
        """What the policy is called."""
        return policy_name(self.policy)
