"""What to compute again: points between the fastest run and the one of the least memory.

A function is cut where the fewest bytes cross before its turn (Chen et al. 2016, Training deep nets
with sublinear memory cost): what crosses stays, and the segments between are computed again, the
first of them or all. Beside these stand points that compute again only what is cheap by its bytes
(Korthikanti et al. 2022, Reducing activation recomputation in large transformer models).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.autodiff.rematerialisation.model import Copy, Run, Steps
from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.ir.decisions.rematerialisation import Recomputation

SEGMENTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)  # into which what is saved is cut
PARTS = 6  # of a row of choices that are weighed
Kept = frozenset[int]


@dataclass(frozen=True, slots=True)
class Point:
    """One choice: what is computed again, and the run that it makes."""

    label: str
    copies: tuple[Copy, ...]
    run: Run


def front(steps: Steps) -> tuple[Point, ...]:
    """The points of which none has both less memory and less time than another, the fastest first:
    that is the run in which nothing is computed again.
    """
    plain = Point("nothing recomputed", (), steps.plain)
    found: dict[tuple[Copy, ...], Point] = {(): plain}
    for label, kept in choices(steps):
        copies = tuple(steps.copies(kept))
        if copies not in found:
            found[copies] = Point(label, copies, steps.run(copies))
    ranked = sorted(found.values(), key=lambda p: (p.run.us, p.run.peak_bytes, len(p.copies)))
    out: list[Point] = []
    for point in ranked:
        if not out or point.run.peak_bytes < out[-1].run.peak_bytes:
            out.append(point)
    return tuple(out)


def choices(steps: Steps) -> Iterator[tuple[str, Kept]]:
    """What may be kept, with a name for each."""
    saved = frozenset(steps.saved)
    if not saved:
        return
    rates = sorted(saved, key=lambda n: steps.all[n].us / steps.all[n].bytes)
    for count in _spread(len(rates)):
        yield f"the {count} cheapest again", saved - {*rates[:count]}
    known: set[Kept] = set()
    for most in SEGMENTS:
        cuts = _cuts(steps, most)
        stays = _crossing(steps, cuts)
        if not cuts or stays in known:
            continue
        known.add(stays)
        for count in _spread(len(cuts)):
            later = frozenset(n for n in saved if steps.level[n] > cuts[count - 1])
            yield f"{count} of {len(cuts) + 1} segments again", stays | later


def _cuts(steps: Steps, most: int) -> tuple[int, ...]:
    """The levels behind which a function is cut into about so many segments of equal bytes, each
    at the narrowest place of the second half of its segment.
    """
    crossing = {
        level: sum(steps.all[n].bytes for n in places) for level, places in steps.crossing().items()
    }
    made = dict.fromkeys(range(steps.turn), 0)
    for n in steps.saved:
        made[steps.level[n]] += steps.all[n].bytes
    limit, cuts, begin = sum(made.values()) / most, list[int](), 0
    for level in sorted(crossing):
        held = sum(made[n] for n in range(begin + 1, level + 1))
        if held < limit:
            continue
        half = [
            n for n in range(begin + 1, level + 1) if n in crossing and _over(made, begin, n, held)
        ]
        begin = min(half, key=lambda n: (crossing[n], -n))
        cuts.append(begin)
    return tuple(cuts)


def _over(made: dict[int, int], begin: int, level: int, held: int) -> bool:
    return 2 * sum(made[n] for n in range(begin + 1, level + 1)) >= held


def _crossing(steps: Steps, cuts: tuple[int, ...]) -> Kept:
    crossing = steps.crossing()
    return frozenset(n for level in cuts for n in crossing[level])


def _spread(count: int) -> list[int]:
    """Some numbers from 1 to `count`, the last included."""
    return sorted({-(-count * part // PARTS) for part in range(1, PARTS + 1)} - {0})


def chosen(points: tuple[Point, ...], room: int) -> tuple[Point, ...]:
    """The points, best first: the fastest that fits into so many bytes, then slower ones, then
    those that do not fit, the smallest first.
    """
    return tuple(sorted(points, key=lambda p: (max(0, p.run.peak_bytes - room), p.run.us)))


def weighed(steps: Steps, point: Point, room: int) -> Candidate[Recomputation]:
    """A point as a decision knows it, refused where it does not fit."""
    names = tuple(steps.all[c.place].name for c in point.copies)
    peak = point.run.peak_bytes
    made = Recomputation(names, peak, point.run.us)
    terms = (("as before", steps.plain.us), ("again", point.run.us - steps.plain.us))
    if peak <= room:
        return Candidate(point.label, made, terms)
    text = f"it needs {peak:,} bytes, and {room:,} are there"
    why = Refusal("room", float(peak), float(room), text)
    return Candidate(point.label, made, terms, text, why)
