"""Choices that were weighed, best first: what each would cost, or why it was refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from explorer.cli.text import duration, table
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import ControlWay
from explorer.ir.decisions.tiling import Tiling

# Of tiles, of merges, of algorithms, of ways of control flow.
Choice: TypeAlias = Tiling | bool | str | ControlWay | None


def candidates(weighed: Sequence[Candidate[Choice]]) -> str:
    rows = [
        (str(n + 1), w.label, "refused" if w.refused else duration(w.cost_us), why(w))
        for n, w in enumerate(weighed)
    ]
    return table((">", "choice", ">modelled", "because"), rows)


def why(weighed: Candidate[Choice]) -> str:
    terms = (f"{name} {duration(us)}" for name, us in weighed.terms if us)
    return weighed.refused or ", ".join(terms)
