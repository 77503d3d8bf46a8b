"""Policies limited to the fastest or to the most efficient rKernel of every operator.

They show the cost of leaving the choice away (the paper, figure 17).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.errors import BadOption
from explorer.rammer.model import Facts, Placement, Policy, ROperator, Share
from explorer.rammer.policies.rkernels import efficient, fastest
from explorer.rammer.policy import name_of, resolve_policy

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
