"""Choice of recomputed values: points between the fastest run and the one of least memory.

A function is cut where the fewest bytes cross before its peak (Chen et al. 2016, Training deep nets
with sublinear memory cost). Crossing values are stored, and the segments between them are
recomputed: the first few, or all. Other points recompute only values that are cheap for their bytes
(Korthikanti et al. 2022, Reducing activation recomputation in large transformer models).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.autodiff.rematerialisation.model import Copy, RunCost, Steps
from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.ir.decisions.rematerialisation import Recomputation

SEGMENTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)  # numbers of segments that are tried
PARTS = 6  # points that are tried of each series
Stored = frozenset[int]


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One choice: the recomputed steps and the run that results."""

    label: str
    copies: tuple[Copy, ...]
    run: RunCost


def front(steps: Steps) -> tuple[FrontierPoint, ...]:
    """Return the Pareto front in time and memory, the fastest first.

    The first point is the run without recomputation.
    """
    plain = FrontierPoint("nothing recomputed", (), steps.plain)
    points: dict[tuple[Copy, ...], FrontierPoint] = {(): plain}
    for label, stored in choices(steps):
        copies = tuple(steps.copies(stored))
        if copies not in points:
            points[copies] = FrontierPoint(label, copies, steps.run(copies))
    ranked = sorted(points.values(), key=lambda p: (p.run.us, p.run.peak_bytes, len(p.copies)))
    out: list[FrontierPoint] = []
    for point in ranked:
        if not out or point.run.peak_bytes < out[-1].run.peak_bytes:
            out.append(point)
    return tuple(out)


def choices(steps: Steps) -> Iterator[tuple[str, Stored]]:
    """Yield the sets of values that could be stored, with a label for each."""
    saved = frozenset(steps.saved)
    if not saved:
        return
    rates = sorted(saved, key=lambda n: steps.all[n].us / steps.all[n].bytes)
    for count in _spread(len(rates)):
        yield f"recompute the {count} cheapest", saved - {*rates[:count]}
    seen: set[Stored] = set()
    for most in SEGMENTS:
        cuts = _cuts(steps, most)
        crossing = _crossing(steps, cuts)
        if not cuts or crossing in seen:
            continue
        seen.add(crossing)
        for count in _spread(len(cuts)):
            saved_after_cut = frozenset(n for n in saved if steps.level[n] > cuts[count - 1])
            yield f"recompute {count} of {len(cuts) + 1} segments", crossing | saved_after_cut


def _cuts(steps: Steps, most: int) -> tuple[int, ...]:
    """Return the levels that cut a function into about `most` segments of equal bytes.

    Each cut is at the narrowest level of the second half of its segment.
    """
    crossing = {
        level: sum(steps.all[n].bytes for n in places) for level, places in steps.crossing().items()
    }
    saved_bytes = dict.fromkeys(range(steps.peak_level), 0)
    for n in steps.saved:
        saved_bytes[steps.level[n]] += steps.all[n].bytes
    limit, cuts, begin = sum(saved_bytes.values()) / most, list[int](), 0
    for level in sorted(crossing):
        segment_bytes = sum(saved_bytes[n] for n in range(begin + 1, level + 1))
        if segment_bytes < limit:
            continue
        half = [
            n
            for n in range(begin + 1, level + 1)
            if n in crossing and _is_second_half(saved_bytes, begin, n, segment_bytes)
        ]
        begin = min(half, key=lambda n: (crossing[n], -n))
        cuts.append(begin)
    return tuple(cuts)


def _is_second_half(
    saved_bytes: dict[int, int], begin: int, level: int, segment_bytes: int
) -> bool:
    return 2 * sum(saved_bytes[n] for n in range(begin + 1, level + 1)) >= segment_bytes


def _crossing(steps: Steps, cuts: tuple[int, ...]) -> Stored:
    crossing = steps.crossing()
    return frozenset(n for level in cuts for n in crossing[level])


def _spread(count: int) -> list[int]:
    """Return some numbers from 1 to `count`, the last included."""
    return sorted({-(-count * part // PARTS) for part in range(1, PARTS + 1)} - {0})


def rank_points(points: tuple[FrontierPoint, ...], limit_bytes: int) -> tuple[FrontierPoint, ...]:
    """Sort the points, best first.

    The fastest that fits into `limit_bytes` comes first, then slower ones, then those that do not
    fit, the smallest first.
    """
    return tuple(sorted(points, key=lambda p: (max(0, p.run.peak_bytes - limit_bytes), p.run.us)))


def to_candidate(steps: Steps, point: FrontierPoint, limit_bytes: int) -> Candidate[Recomputation]:
    """Return a point as the candidate of a decision, refused if it does not fit."""
    names = tuple(steps.all[c.place].name for c in point.copies)
    peak = point.run.peak_bytes
    recomputation = Recomputation(names, peak, point.run.us)
    terms = (("before", steps.plain.us), ("recomputed", point.run.us - steps.plain.us))
    if peak <= limit_bytes:
        return Candidate(point.label, recomputation, terms)
    text = f"it needs {peak:,} bytes, and only {limit_bytes:,} are available"
    why = Refusal("room", float(peak), float(limit_bytes), text)
    return Candidate(point.label, recomputation, terms, text, why)
