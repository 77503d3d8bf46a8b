"""Validation of a user's policy: its candidates for a kernel, or BadPolicy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from numbers import Real
from typing import Any

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.passes.policy_call import PolicyCall
from explorer.process.user_code import a, shown
from explorer.roller.weigh_tiles import in_numbers


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for a policy's results for one kernel.

    `word` names a result; `none` replaces an invalid one that is shown. The functions return the
    rule of form, or of the device, that a tiling breaks.
    """

    word: str
    none: Tiling
    malformed: Callable[[Any], str]
    refusal: Callable[[Tiling], str]
    refuses: str  # the function that weighs one, and refuses it


EXPECTED = "Candidates with a Tiling each, best first"


def validate_candidates(
    policy_call: PolicyCall, ask: Callable[[], object], rules: Rules, most: int
) -> tuple[Candidate[Tiling], ...]:
    """Return the first candidates of a policy, those that it marked as refused last.

    Each must be a Candidate of a well-formed value. At least one is not marked as refused, and
    those that are not are legal. No more than `most` are requested.
    """
    results = policy_call.collect(ask, most, EXPECTED)
    validated: tuple[Candidate[Tiling], ...] = tuple(
        _candidate(policy_call, rules, c) for c in results
    )
    legal = [c for c in validated if not c.refused]
    what = rules.word
    for c in legal:
        why = rules.refusal(c.value)
        if why:
            raise policy_call.refused(
                f"returned {c.value.words} as legal, and it is not: {why}",
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


def _candidate(policy_call: PolicyCall, rules: Rules, result: Any) -> Candidate[Tiling]:
    """Return a candidate whose fields have the declared types."""
    what = rules.word
    if not isinstance(result, Candidate):
        raise policy_call.refused(
            f"returned {a(result)} among its candidates, not a Candidate",
            EXPECTED,
            shown(result),
        )
    if not (isinstance(result.refused, str) and isinstance(result.label, str)):
        raise policy_call.refused(
            "returned a candidate whose label or refusal is not a str", "str", shown(result)
        )
    if not isinstance(result.value, Tiling):
        raise policy_call.refused(
            f"returned a candidate of {a(result.value)}", "a Tiling", shown(result.value)
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
    return replace(result, value=in_numbers(result.value), terms=terms)
