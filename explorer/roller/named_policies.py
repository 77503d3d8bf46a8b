"""The tiling policies that have a name.

"construct" is the default because it measured better: over the 26 kernels of ResNet-50, MobileNetV2
and SqueezeNet for which the two differ its first tiling takes 1/1.016 of the time of that of
"candidates" in the geometric mean (two threads, one machine), a whole MobileNetV2 1/1.09. By the
model the two are within 2 % of each other. It weighs a tenth of the tilings, in half the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.kernel import Kernel
from explorer.passes.policy_call import ShippedPolicies

Policy = Callable[[Kernel, Device, ShapeEnv, Sizes], Iterator[Candidate[Tiling]]]
NamedPolicy = Callable[[Kernel, Device, ShapeEnv, Sizes, int], Iterator[Candidate[Tiling]]]

POLICIES: Mapping[str, NamedPolicy] = ShippedPolicies(
    {
        "candidates": "explorer.roller.policy.tile_candidates",
        "construct": "explorer.roller.cpu_candidates.cpu_candidates",
    }
)
DEFAULT = "construct"
