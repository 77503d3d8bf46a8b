"""Why a kernel is tiled as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Block, Tiling, TilingDecision


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision on one kernel: tilings best first, the one that was asked for, and the merges
    that were weighed. On a GPU's data sheet `blocks` are the thread blocks in place of tilings, the
    fastest alone first, and `taken` those of the wall.
    """

    kernel: str
    origins: tuple[str, ...]
    tilings: TilingDecision
    asked: Candidate[Tiling] | None
    merges: tuple[Candidate[bool], ...]
    blocks: tuple[Candidate[Block], ...] = ()
    taken: tuple[Block, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.kernel}, from {', '.join(self.origins)}"]
        lines += self._thread_blocks() if self.blocks else self._tilings()
        if self.asked is not None:
            lines.append(f"asked: {_cost(self.asked)}  {self.asked.label}")
        lines += [f"merge: {_cost(m)}  {m.label}" for m in self.merges]
        return "\n".join(lines)

    def _tilings(self) -> Iterator[str]:
        timed = {m.tiling: m for m in self.tilings.measured}
        for n, c in enumerate(self.tilings.candidates):
            mark = ">" if c.value == self.tilings.chosen else " "
            line = f"{mark} {n + 1:2d} {_cost(c)}  {c.label}"
            if (m := timed.get(c.value)) is not None:
                line += f": {m.measured_us:.1f} us timed alone, number {m.rank} by the model"
            yield line

    def _thread_blocks(self) -> Iterator[str]:
        for n, c in enumerate(self.blocks):
            mark = ">" if c.value in self.taken else " "
            yield f"{mark} {n + 1:2d} {_cost(c)}  {c.label}"


def _cost(c: Candidate[Tiling | Block | bool]) -> str:
    if c.refused:
        return f"refused: {c.refused}"
    terms = ", ".join(f"{name} {us:.1f}" for name, us in c.terms if us)
    return f"{c.cost_us:8.1f} us modelled ({terms})"
