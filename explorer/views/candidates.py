"""Tables of weighed candidates, best first: the cost of each or why it was refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from explorer.compiler.operators import in_words
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import ControlSchedule
from explorer.ir.decisions.tiling import Tiling
from explorer.plain_text import duration, table

# Tiles, merges, convolution algorithms, control-flow schedules.
Choice: TypeAlias = Tiling | bool | str | ControlSchedule | None


NO_NAMES: Mapping[str, str] = MappingProxyType({})


def candidates(weighed: Sequence[Candidate[Choice]], names: Mapping[str, str] = NO_NAMES) -> str:
    """Return a table of candidates.

    Args:
        weighed: the candidates, best first.
        names: the labels of the values that the candidates mention.
    """
    rows = [
        (
            str(n + 1),
            in_words(w.label, names),
            "refused" if w.refused else duration(w.cost_us),
            in_words(reason_or_costs(w), names),
        )
        for n, w in enumerate(weighed)
    ]
    return table((">", "choice", ">predicted", "because"), rows)


def reason_or_costs(weighed: Candidate[Choice]) -> str:
    """Return why a candidate was refused, else its cost terms."""
    terms = (f"{name} {duration(us)}" for name, us in weighed.terms if us)
    return weighed.refused or ", ".join(terms)
