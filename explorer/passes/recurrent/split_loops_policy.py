"""Cost of splitting a loop, so that the matrices of each stage stay in a near memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.passes.recurrent.product_policy import nearest_level

WHOLE, PARTS = "whole", "parts"


@dataclass(frozen=True, slots=True)
class LoopPart:
    """The work of a part in each trip.

    Bytes of matrices that multiply its state, bytes of those that multiply values of earlier parts,
    and multiplications plus additions.
    """

    state_bytes: int
    other_bytes: int
    flops: float


def rank_splitting(
    parts: Sequence[LoopPart], trips: int, moved_bytes: int, device: Device, split: str
) -> tuple[Candidate[bool], ...]:
    """Return both schedules of a loop with several parts, best first.

    whole  each trip reads all matrices, from the nearest memory that holds them all

    parts  each part reads the matrices of its state in each trip, from the nearest memory that
    holds them; the others once, as all their rows are available. Values between parts are written
    and read, with a global barrier between the parts
    """
    units = max(1, device.units)

    def read(size: int, resident: int) -> float:
        return size / nearest_level(device, resident).bytes_per_us / units

    every = sum(p.state_bytes + p.other_bytes for p in parts)
    work = [trips * p.flops / (device.reached_gflops_per_unit * units * 1e3) for p in parts]
    unsplit = [trips * read(p.state_bytes + p.other_bytes, every) for p in parts]
    apart = [trips * read(p.state_bytes, p.state_bytes) + read(p.other_bytes, every) for p in parts]
    barrier = device.barrier_us if device.units > 1 else 0.0
    moved = 2 * moved_bytes / nearest_level(device, moved_bytes).bytes_per_us / units
    candidates = (
        Candidate(WHOLE, False, (("weights and arithmetic", _sum_slower(unsplit, work)),)),
        Candidate(
            PARTS,
            True,
            (
                ("weights and arithmetic", _sum_slower(apart, work)),
                ("rows", moved),
                ("barriers", barrier * (len(parts) - 1)),
            ),
        ),
    )
    return _rank(*candidates, split)


def _sum_slower(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(map(max, a, b))


def _rank(
    unsplit: Candidate[bool], parts: Candidate[bool], split: str
) -> tuple[Candidate[bool], ...]:
    if split == "on" or (split == "auto" and parts.cost_us < unsplit.cost_us):
        return parts, unsplit
    if split == "off":
        why = Refusal("option", 1, 0, "the option says off", "split=on or split=auto")
    else:
        lost = parts.cost_us - unsplit.cost_us
        text = f"it would take {lost:.1f} us longer by the model"
        why = Refusal("gain", lost, 0.0, text, "split=on does it nevertheless")
    return unsplit, Candidate(PARTS, True, parts.terms, why.words, why)
