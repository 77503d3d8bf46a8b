"""The modelled time of one tiling, or the rule that it breaks."""

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
from explorer.ops.reference.cancellation import raise_if_cancelled
from explorer.roller.well_formed import malformed
from explorer.tile.rewrites import placed_program


def weigh(
    kernel: Kernel, tiling: Tiling, device: Device, env: ShapeEnv, sizes: Sizes
) -> Candidate[Tiling]:
    """Return a tiling with the modelled time of the kernel on all units, or the rule it breaks."""
    why = refusal(kernel, tiling, device, env, sizes)
    if malformed(kernel, tiling, device):
        return Candidate("an invalid tiling", tiling, (), why)
    candidate = scored(kernel, tiling, device, sizes, propagate(kernel, dict(tiling.tile)))
    return Candidate(candidate.label, tiling, candidate.terms, why)


def label_of(tiling: Tiling) -> str:
    """Return a tiling in words."""
    tile = " ".join(f"{a}={n}" for a, n in tiling.tile) or "whole"
    return f"{tile}, registers {tiling.micro.rows}x{tiling.micro.columns}"


def scored(
    kernel: Kernel, tiling: Tiling, device: Device, sizes: Sizes, regions: Regions
) -> Candidate[Tiling]:
    """Return a tiling with the modelled time of all its tasks, legal or not.

    Raises:
        Cancelled: the compilation is no longer needed; a step weighs thousands.
    """
    raise_if_cancelled("weighing tiles")
    return Candidate(label_of(tiling), tiling, kernel_terms(kernel, tiling, device, sizes, regions))


def refusal(kernel: Kernel, tiling: Tiling, device: Device, env: ShapeEnv, sizes: Sizes) -> str:
    """Return the rule that a tiling breaks, with the numbers, "" if it is legal."""
    wrong = malformed(kernel, tiling, device)
    if wrong:
        return wrong
    try:
        program = placed_program(kernel, tiling, env, device)
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
    """Return the size of the largest private memory of a unit."""
    return max(
        (m.capacity_bytes for m in device.levels if not m.shared and m.capacity_bytes),
        default=1 << 20,
    )
