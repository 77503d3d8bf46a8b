"""Scheduling policies by name, and a policy with one implementation of some operators.

A policy is a pure function from facts to a placement; any other function may be passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from explorer.errors import BadOption
from explorer.passes.policy_call import ShippedPolicies, policy_name
from explorer.passes.ranges import PolicyOf, check_value
from explorer.rammer.model import Facts, Placement, Policy, ROperator, Share

POLICIES: Mapping[str, Policy] = ShippedPolicies(
    {
        "wavefront": "explorer.rammer.wavefront.wavefront",
        "op-by-op": "explorer.rammer.wavefront.op_by_op",
        "critical-path": "explorer.rammer.critical_path.critical_path",
        "weight-stationary": "explorer.rammer.weight_stationary.weight_stationary",
        "gang": "explorer.rammer.published_gangs.gang",
    }
)


def resolve_policy(policy: str | Policy) -> Policy:
    """Return the policy of a name, or the policy itself.

    Raises:
        BadOption: There is no policy of that name.
    """
    allowed = PolicyOf("rammer", POLICIES)
    resolved: Any = allowed.resolve(policy)
    check_value("rammer.policy", resolved, allowed)
    return POLICIES[resolved] if isinstance(resolved, str) else resolved


name_of = policy_name


WHICH = ("fastest", "efficient")


@dataclass(frozen=True)
class OneKernel:
    """A policy that sees one implementation an operator: `which` is "fastest" or "efficient"."""

    base: str | Policy
    which: str

    def __post_init__(self) -> None:
        """Check the name of the base policy, and `which`."""
        resolve_policy(self.base)
        if self.which not in WHICH:
            words = f"there is no {self.which!r} rKernel"
            raise BadOption(words, expected=" or ".join(WHICH), actual=self.which)

    def __call__(self, facts: Facts) -> Placement:
        """Return the base's placement of these kernels."""
        from explorer.rammer.rkernels import efficient, fastest

        units = facts.device.units
        taken = [
            fastest(o, units) if self.which == "fastest" else efficient(o) for o in facts.operators
        ]
        operators = tuple(_only(o, n) for o, n in zip(facts.operators, taken))
        placement = resolve_policy(self.base)(replace(facts, operators=operators))

        def with_kernel(share: Share) -> Share:
            return replace(share, kernel=taken[share.operator])

        programs = tuple(tuple(map(with_kernel, p)) for p in placement.programs)
        return replace(placement, programs=programs)

    @property
    def __name__(self) -> str:
        """The name in pictures."""
        return f"{name_of(self.base)}, {self.which} rKernels"


def _only(operator: ROperator, kernel: int) -> ROperator:
    if not operator.kernels:
        return operator
    k = operator.kernels[kernel]
    return replace(operator, tasks=k.tasks, task_us=k.task_us, cached_us=k.cached_us, kernels=())
