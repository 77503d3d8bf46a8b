"""Validation of a user's policy: its candidates for a kernel, or BadPolicy."""

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
from explorer.passes.pipeline.policy_call import PolicyCall, a, shown
from explorer.roller.blocks.candidates import block_refusal
from explorer.roller.blocks.validate_block import block_in_numbers, malformed_block
from explorer.roller.tiles.weigh import label_of, refusal
from explorer.roller.well_formed import in_numbers, malformed

Tile = TypeVar("Tile", bound=Tiling | Block)


@dataclass(frozen=True, slots=True)
class Rules(Generic[Tile]):
    """The rules for a policy's results for one kernel.

    A result has values of `kind`; `none` replaces an invalid one that is shown. The functions
    return the rule of form, or of the device, that a value breaks, its label, and the value in
    Python's own numbers.
    """

    kind: type[Tile]
    none: Tile
    malformed: Callable[[Any], str]
    refusal: Callable[[Tile], str]
    label: Callable[[Tile], str]
    in_numbers: Callable[[Tile], Tile]
    refuses: str  # the function that weighs one, and refuses it

    @property
    def expected(self) -> str:
        """A description of the expected result."""
        return f"Candidates with a {self.kind.__name__} each, best first"


def of_tilings(kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes) -> Rules[Tiling]:
    """Return the rules for tilings of a processor."""
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
    """Return the rules for thread blocks of a GPU."""
    return Rules(
        Block,
        Block(),
        malformed_block,
        lambda b: block_refusal(kernel, b, device, sizes),
        lambda b: b.words,
        block_in_numbers,
        "explorer.roller.blocks.candidates.weigh_block",
    )


def validate_candidates(
    policy_call: PolicyCall, ask: Callable[[], object], rules: Rules[Tile], most: int
) -> tuple[Candidate[Tile], ...]:
    """Return the first candidates of a policy, those that it marked as refused last.

    Each must be a Candidate of a well-formed value. At least one is not marked as refused, and
    those that are not are legal. No more than `most` are requested.
    """
    results = policy_call.collect(ask, most, rules.expected)
    validated: tuple[Candidate[Tile], ...] = tuple(
        _candidate(policy_call, rules, c) for c in results
    )
    legal = [c for c in validated if not c.refused]
    what = rules.kind.__name__.lower()
    for c in legal:
        why = rules.refusal(c.value)
        if why:
            raise policy_call.refused(
                f"returned {rules.label(c.value)} as legal, and it is not: {why}",
                f"a legal {what}",
                c.label,
                f"leave it out, or mark it as refused, as {rules.refuses} does",
            )
    if not legal:
        reason = (
            f"the first is refused: {validated[0].refused}"
            if validated
            else "it returned no candidates"
        )
        raise policy_call.refused(
            f"returned no legal {what}: {reason}", f"at least one legal {what}"
        )
    return (*legal, *(c for c in validated if c.refused))


def _candidate(policy_call: PolicyCall, rules: Rules[Tile], result: Any) -> Candidate[Tile]:
    """Return a candidate whose fields have the declared types."""
    kind, what = rules.kind.__name__, rules.kind.__name__.lower()
    if not isinstance(result, Candidate):
        raise policy_call.refused(
            f"returned {a(result)} among its candidates, not a Candidate",
            rules.expected,
            shown(result),
        )
    if not (isinstance(result.refused, str) and isinstance(result.label, str)):
        raise policy_call.refused(
            "returned a candidate whose label or refusal is not a str", "str", shown(result)
        )
    if not isinstance(result.value, rules.kind):
        raise policy_call.refused(
            f"returned a candidate of {a(result.value)}", f"a {kind}", shown(result.value)
        )
    why = rules.malformed(result.value)
    if why and result.refused:  # shown as refused
        return replace(
            result, value=rules.none, terms=(), label=result.label or shown(result.value)
        )
    if why:
        raise policy_call.refused(
            f"returned an invalid {what}: {why}", f"a legal {what}", shown(result.value)
        )
    try:
        terms = tuple((str(name), float(us)) for name, us in result.terms)
        sound = all(isinstance(us, Real) and isfinite(us) for _, us in result.terms)
    except (TypeError, ValueError, OverflowError):
        sound = False
    if not sound:
        raise policy_call.refused(
            "returned a cost that is not a finite number",
            "terms of a name and microseconds",
            shown(result.terms),
        )
    return replace(result, value=rules.in_numbers(result.value), terms=terms)
