"""Whether a loop becomes several: what it is worth that the matrices of each stay near."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.passes.recurrent.product_policy import home

WHOLE, PARTS = "whole", "parts"


@dataclass(frozen=True, slots=True)
class Part:
    """What a part does in each trip: bytes of matrices that multiply its state, and of those that
    multiply what it is handed; multiplications and additions.
    """

    state_bytes: int
    other_bytes: int
    flops: float


def weigh_parts(
    parts: Sequence[Part], trips: int, moved_bytes: int, device: Device, split: str
) -> tuple[Candidate[bool], ...]:
    """Both ways to run a loop that falls into parts, the one to take first.

    whole  each trip reads all matrices, from the nearest memory that holds them all
    parts  each part reads those of its state again and again, from the nearest memory that holds
           them; the others once, as all its rows are there. What one part hands to another is
           written and read, and all units meet between them
    """
    units = max(1, device.units)

    def read(found: int, held: int) -> float:
        return found / home(device, held).bytes_per_us / units

    every = sum(p.state_bytes + p.other_bytes for p in parts)
    work = [trips * p.flops / (device.reached_gflops_per_unit * units * 1e3) for p in parts]
    whole = [trips * read(p.state_bytes + p.other_bytes, every) for p in parts]
    apart = [trips * read(p.state_bytes, p.state_bytes) + read(p.other_bytes, every) for p in parts]
    barrier = device.barrier_us if device.units > 1 else 0.0
    moved = 2 * moved_bytes / home(device, moved_bytes).bytes_per_us / units
    ways = (
        Candidate(WHOLE, False, (("weights and arithmetic", _slower(whole, work)),)),
        Candidate(
            PARTS,
            True,
            (
                ("weights and arithmetic", _slower(apart, work)),
                ("rows", moved),
                ("barriers", barrier * (len(parts) - 1)),
            ),
        ),
    )
    return _in_order(*ways, split)


def _slower(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(map(max, a, b))


def _in_order(
    whole: Candidate[bool], parts: Candidate[bool], split: str
) -> tuple[Candidate[bool], ...]:
    if split == "on" or (split == "auto" and parts.cost_us < whole.cost_us):
        return parts, whole
    if split == "off":
        why = Refusal("option", 1, 0, "the option says off", "split=on or split=auto")
    else:
        lost = parts.cost_us - whole.cost_us
        text = f"it would take {lost:.1f} us longer by the model"
        why = Refusal("gain", lost, 0.0, text, "split=on does it nevertheless")
    return whole, Candidate(PARTS, True, parts.terms, why.words, why)
