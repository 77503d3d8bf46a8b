"""The ways to tile a kernel that have a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from explorer.devices.model import Device
from explorer.ir.decisions import Candidate
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.kernel import Kernel
from explorer.roller.constructed import constructed
from explorer.roller.policy import candidates

Policy = Callable[[Kernel, Device, ShapeEnv, Sizes], Iterator[Candidate]]
NamedPolicy = Callable[[Kernel, Device, ShapeEnv, Sizes, int], Iterator[Candidate]]

POLICIES: dict[str, NamedPolicy] = {"candidates": candidates, "construct": constructed}
DEFAULT = "candidates"
