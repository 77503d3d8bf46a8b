"""Options of Welder."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.passes.pipeline.policy_call import policy_name
from explorer.passes.pipeline.ranges import PolicyOf, Rows, Switch, check, option
from explorer.welder.named_policies import DEFAULT, POLICIES, Policy


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
