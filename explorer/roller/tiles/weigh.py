"""One tiling: its modelled time, or the rule that it breaks."""

from __future__ import annotations

from explorer.cost.estimate import kernel_terms
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.patterns.regions import Regions, propagate
from explorer.ir.shapes.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.ir.types import ITEM_BYTES
from explorer.ops.reference.cancellation import end_if_unwanted
from explorer.roller.well_formed import malformed
from explorer.tile.rewrites import placed


def weigh(
    kernel: Kernel, tiling: Tiling, device: Device, env: ShapeEnv, sizes: Sizes
) -> Candidate[Tiling]:
    """One tiling with the modelled time of the whole kernel on all units, or the rule that it
    breaks.
    """
    why = refusal(kernel, tiling, device, env, sizes)
    if malformed(kernel, tiling, device):
        return Candidate("a tiling that there is not", tiling, (), why)
    found = scored(kernel, tiling, device, sizes, propagate(kernel, dict(tiling.tile)))
    return Candidate(found.label, tiling, found.terms, why)


def label_of(tiling: Tiling) -> str:
    """A tiling in words."""
    tile = " ".join(f"{a}={n}" for a, n in tiling.tile) or "whole"
    return f"{tile}, registers {tiling.micro.rows}x{tiling.micro.columns}"


def scored(
    kernel: Kernel, tiling: Tiling, device: Device, sizes: Sizes, regions: Regions
) -> Candidate[Tiling]:
    """A tiling with the modelled time of all its tasks, legal or not. Raises Cancelled where nobody
    wants it any more: a step weighs thousands.
    """
    end_if_unwanted("weighing tiles")
    return Candidate(label_of(tiling), tiling, kernel_terms(kernel, tiling, device, sizes, regions))


def refusal(kernel: Kernel, tiling: Tiling, device: Device, env: ShapeEnv, sizes: Sizes) -> str:
    """The rule that a tiling breaks, with the numbers; empty where it is legal."""
    wrong = malformed(kernel, tiling, device)
    if wrong:
        return wrong
    try:
        program = placed(kernel, tiling, env, device)
    except BadOption as error:
        return error.sentence
    scratch = (b for b in program.buffers if b.kind == "scratch")
    total = sum(evaluate_dim(b.size, sizes) * ITEM_BYTES[b.dtype] for b in scratch)
    room = private_bytes(device)
    if total > room:
        have = f"a unit of {device.name} has {room / 1024:.0f} KiB"
        return f"capacity: scratch needs {total / 1024:.0f} KiB, {have}"
    return ""


def private_bytes(device: Device) -> int:
    """The largest memory that one unit has for itself."""
    return max(
        (m.capacity_bytes for m in device.levels if not m.shared and m.capacity_bytes),
        default=1 << 20,
    )
