"""How rTasks are placed: pure functions from facts to a placement; any other may be passed."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from explorer.passes.pipeline.own_policy import policy_name
from explorer.passes.pipeline.ranges import PolicyOf, taken
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


def named(policy: str | Policy) -> Policy:
    """The policy of a name, or the one that is given; raises BadOption for a name that there is
    not.
    """
    allowed = PolicyOf("rammer", POLICIES)
    found: Any = allowed.found(policy)
    taken("rammer.policy", found, allowed)
    return POLICIES[found] if isinstance(found, str) else found


name_of = policy_name
