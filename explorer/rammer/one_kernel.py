"""A policy whose operators all run with their fastest, or all with their most efficient rKernel:
what it would cost to leave the choice away (the paper, figure 17).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.errors import BadOption
from explorer.rammer.model import Facts, Placement, Policy, ROperator, Share
from explorer.rammer.policies.rkernels import efficient, fastest
from explorer.rammer.policy import name_of, named

WHICH = ("fastest", "efficient")


@dataclass(frozen=True)
class OneKernel:
    """A policy that is told of one implementation an operator: `which` is "fastest" or
    "efficient".
    """

    base: str | Policy
    which: str

    def __post_init__(self) -> None:
        named(self.base)
        if self.which not in WHICH:
            words = f"no rKernel is the {self.which!r} one"
            raise BadOption(words, expected=" or ".join(WHICH), found=self.which)

    def __call__(self, facts: Facts) -> Placement:
        """The base's placement of these kernels."""
        units = facts.device.units
        taken = [
            fastest(o, units) if self.which == "fastest" else efficient(o) for o in facts.operators
        ]
        operators = tuple(_only(o, n) for o, n in zip(facts.operators, taken))
        placement = named(self.base)(replace(facts, operators=operators))

        def with_kernel(share: Share) -> Share:
            return replace(share, kernel=taken[share.operator])

        programs = tuple(tuple(map(with_kernel, p)) for p in placement.programs)
        return replace(placement, programs=programs)

    @property
    def __name__(self) -> str:
        """What pictures call it."""
        return f"{name_of(self.base)}, {self.which} rKernels"


def _only(operator: ROperator, kernel: int) -> ROperator:
    if not operator.kernels:
        return operator
    k = operator.kernels[kernel]
    return replace(operator, tasks=k.tasks, task_us=k.task_us, kept_us=k.kept_us, kernels=())
