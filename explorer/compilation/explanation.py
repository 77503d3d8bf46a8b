"""Why a kernel is tiled as it is."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling, TilingDecision


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision on one kernel: tilings best first, the one that was asked for, and the merges
    that were weighed.
    """

    kernel: str
    origins: tuple[str, ...]
    tilings: TilingDecision
    asked: Candidate[Tiling] | None
    merges: tuple[Candidate[bool], ...]

    def __str__(self) -> str:
        lines = [f"{self.kernel}, from {', '.join(self.origins)}"]
        timed = {m.tiling: m for m in self.tilings.measured}
        for n, c in enumerate(self.tilings.candidates):
            mark = ">" if c.value == self.tilings.chosen else " "
            lines.append(f"{mark} {n + 1:2d} {_cost(c)}  {c.label}")
            if (m := timed.get(c.value)) is not None:
                lines[-1] += f": {m.measured_us:.1f} us timed alone, number {m.rank} by the model"
        if self.asked is not None:
            lines.append(f"asked: {_cost(self.asked)}  {self.asked.label}")
        lines += [f"merge: {_cost(m)}  {m.label}" for m in self.merges]
        return "\n".join(lines)


def _cost(c: Candidate[Tiling | bool]) -> str:
    if c.refused:
        return f"refused: {c.refused}"
    terms = ", ".join(f"{name} {us:.1f}" for name, us in c.terms if us)
    return f"{c.cost_us:8.1f} us modelled ({terms})"
