"""Scheduling policies by name.

A policy is a pure function from facts to a placement; any other function may be passed.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from explorer.passes.pipeline.policy_call import policy_name
from explorer.passes.pipeline.ranges import PolicyOf, check_value
from explorer.rammer.model import Policy
from explorer.rammer.policies.critical_path import critical_path
from explorer.rammer.policies.op_by_op import op_by_op
from explorer.rammer.policies.published_gangs import gang
from explorer.rammer.policies.wavefront import wavefront
from explorer.rammer.policies.weight_stationary import weight_stationary

POLICIES: MappingProxyType[str, Policy] = MappingProxyType(
    {
        "wavefront": wavefront,
        "op-by-op": op_by_op,
        "critical-path": critical_path,
        "weight-stationary": weight_stationary,
        "gang": gang,
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
