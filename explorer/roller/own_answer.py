"""What a policy of the user's own says of a kernel: candidates by all rules, or BadPolicy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from numbers import Real
from typing import Any

from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.shapes.dims import ShapeEnv, Sizes
from explorer.passes.pipeline.own_policy import Asked, a, shown
from explorer.roller.tiles.weigh import label_of, refusal
from explorer.roller.well_formed import in_numbers, malformed

GIVEN = "Candidates with a Tiling each, best first"


def own_candidates(
    asked: Asked,
    ask: Callable[[], object],
    kernel: Kernel,
    device: Device,
    env: ShapeEnv,
    sizes: Sizes,
    most: int,
) -> tuple[Candidate[Tiling], ...]:
    """The first candidates of a policy, those that it marked as refused last.

    Each is a Candidate of a well-formed Tiling; one at least is not marked as refused, and those
    that are not are legal. No more than `most` are asked for.
    """
    given = asked.taken(ask, most, GIVEN)
    found = tuple(_candidate(asked, kernel, device, c) for c in given)
    legal = tuple(c for c in found if not c.refused)
    for c in legal:
        why = refusal(kernel, c.value, device, env, sizes)
        if why:
            raise asked.refused(
                f"gave {label_of(c.value)} as legal, and it is not: {why}",
                "a legal tiling",
                c.label,
                "leave it out, or mark it as refused, as explorer.roller.tiles.weigh.weigh does",
            )
    if not legal:
        said = f"its first is refused: {found[0].refused}" if found else "it gave none at all"
        raise asked.refused(
            f"gave no tiling that can be taken: {said}", "one legal tiling at least"
        )
    return (*legal, *(c for c in found if c.refused))


def _candidate(asked: Asked, kernel: Kernel, device: Device, given: Any) -> Candidate[Tiling]:
    """A candidate in which nothing is of another type than it says."""
    if not isinstance(given, Candidate):
        raise asked.refused(f"gave {a(given)} among its candidates", GIVEN, shown(given))
    if not (isinstance(given.refused, str) and isinstance(given.label, str)):
        raise asked.refused(
            "gave a candidate whose label and refusal are no words", "text", shown(given)
        )
    if not isinstance(given.value, Tiling):
        raise asked.refused(f"gave a candidate of {a(given.value)}", "a Tiling", shown(given.value))
    why = malformed(kernel, given.value, device)
    if why and given.refused:  # not taken, but shown
        return replace(given, value=Tiling(), terms=(), label=given.label or shown(given.value))
    if why:
        raise asked.refused(
            f"gave a tiling that is none: {why}", "a legal tiling", shown(given.value)
        )
    try:
        terms = tuple((str(name), float(us)) for name, us in given.terms)
        sound = all(isinstance(us, Real) and isfinite(us) for _, us in given.terms)
    except (TypeError, ValueError, OverflowError):
        sound = False
    if not sound:
        raise asked.refused(
            "gave a cost that is no number", "terms of a name and microseconds", shown(given.terms)
        )
    return replace(given, value=in_numbers(given.value), terms=terms)
