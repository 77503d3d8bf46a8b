"""Choices that were weighed, best first: what each would cost, or why it was refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from explorer.compilation.operators import in_words
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import ControlSchedule
from explorer.ir.decisions.tiling import Block, Tiling
from explorer.plain_text import duration, table

# Of tiles, of merges, of algorithms, of ways of control flow.
Choice: TypeAlias = Tiling | Block | bool | str | ControlSchedule | None


NO_NAMES: Mapping[str, str] = MappingProxyType({})


def candidates(weighed: Sequence[Candidate[Choice]], names: Mapping[str, str] = NO_NAMES) -> str:
    """A table of them; `names` is what readers call the values that they speak of."""
    rows = [
        (
            str(n + 1),
            in_words(w.label, names),
            "refused" if w.refused else duration(w.cost_us),
            in_words(why(w), names),
        )
        for n, w in enumerate(weighed)
    ]
    return table((">", "choice", ">predicted", "because"), rows)


def why(weighed: Candidate[Choice]) -> str:
    terms = (f"{name} {duration(us)}" for name, us in weighed.terms if us)
    return weighed.refused or ", ".join(terms)
