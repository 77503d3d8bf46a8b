"""What a policy of the user's own says of a kernel: candidates by all rules, or BadPolicy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from numbers import Real
from typing import Any, Generic, TypeVar

from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Block, Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.shapes.dims import ShapeEnv, Sizes
from explorer.passes.pipeline.own_policy import Asked, a, shown
from explorer.roller.blocks.candidates import block_refusal
from explorer.roller.blocks.possible_block import block_in_numbers, malformed_block
from explorer.roller.tiles.weigh import label_of, refusal
from explorer.roller.well_formed import in_numbers, malformed

Tile = TypeVar("Tile", bound=Tiling | Block)


@dataclass(frozen=True, slots=True)
class Rules(Generic[Tile]):
    """What a policy gives of one kernel: values of `kind`, `none` in the place of one that is none;
    which rule of form, and which of the device, one breaks; how it is called, and its own numbers.
    """

    kind: type[Tile]
    none: Tile
    malformed: Callable[[Any], str]
    refusal: Callable[[Tile], str]
    label: Callable[[Tile], str]
    in_numbers: Callable[[Tile], Tile]
    refuses: str  # the function that weighs one, and refuses it

    @property
    def given(self) -> str:
        """What is to be given."""
        return f"Candidates with a {self.kind.__name__} each, best first"


def of_tilings(kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes) -> Rules[Tiling]:
    """Of a processor."""
    return Rules(
        Tiling,
        Tiling(),
        lambda t: malformed(kernel, t, device),
        lambda t: refusal(kernel, t, device, env, sizes),
        label_of,
        in_numbers,
        "explorer.roller.tiles.weigh.weigh",
    )


def of_blocks(kernel: Kernel, device: Device, sizes: Sizes) -> Rules[Block]:
    """Of a GPU."""
    return Rules(
        Block,
        Block(),
        malformed_block,
        lambda b: block_refusal(kernel, b, device, sizes),
        lambda b: b.words,
        block_in_numbers,
        "explorer.roller.blocks.candidates.weigh_block",
    )


def own_candidates(
    asked: Asked, ask: Callable[[], object], rules: Rules[Tile], most: int
) -> tuple[Candidate[Tile], ...]:
    """The first candidates of a policy, those that it marked as refused last.

    Each is a Candidate of a well-formed value; one at least is not marked as refused, and those
    that are not are legal. No more than `most` are asked for.
    """
    given = asked.taken(ask, most, rules.given)
    found: tuple[Candidate[Tile], ...] = tuple(_candidate(asked, rules, c) for c in given)
    legal = [c for c in found if not c.refused]
    what = rules.kind.__name__.lower()
    for c in legal:
        why = rules.refusal(c.value)
        if why:
            raise asked.refused(
                f"gave {rules.label(c.value)} as legal, and it is not: {why}",
                f"a legal {what}",
                c.label,
                f"leave it out, or mark it as refused, as {rules.refuses} does",
            )
    if not legal:
        said = f"its first is refused: {found[0].refused}" if found else "it gave none at all"
        raise asked.refused(
            f"gave no {what} that can be taken: {said}", f"one legal {what} at least"
        )
    return (*legal, *(c for c in found if c.refused))


def _candidate(asked: Asked, rules: Rules[Tile], given: Any) -> Candidate[Tile]:
    """A candidate in which nothing is of another type than it says."""
    kind, what = rules.kind.__name__, rules.kind.__name__.lower()
    if not isinstance(given, Candidate):
        raise asked.refused(f"gave {a(given)} among its candidates", rules.given, shown(given))
    if not (isinstance(given.refused, str) and isinstance(given.label, str)):
        raise asked.refused(
            "gave a candidate whose label and refusal are no words", "text", shown(given)
        )
    if not isinstance(given.value, rules.kind):
        raise asked.refused(
            f"gave a candidate of {a(given.value)}", f"a {kind}", shown(given.value)
        )
    why = rules.malformed(given.value)
    if why and given.refused:  # not taken, but shown
        return replace(given, value=rules.none, terms=(), label=given.label or shown(given.value))
    if why:
        raise asked.refused(
            f"gave a {what} that is none: {why}", f"a legal {what}", shown(given.value)
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
    return replace(given, value=rules.in_numbers(given.value), terms=terms)
