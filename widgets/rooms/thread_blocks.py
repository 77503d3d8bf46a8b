"""The thread blocks of a kernel on a data sheet: those that were weighed, and the wall's."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Block
from widgets.model.knobs import Setting


@dataclass(frozen=True, slots=True)
class Weighed:
    """A block with what it would take alone; `on`: bricks of the wall are such blocks."""

    candidate: Candidate[Block]
    on: bool


def thread_blocks(now: Setting, binding: str) -> tuple[Weighed, ...]:
    """Those of a kernel call, the fastest alone first; none where nothing is printed of it."""
    c, sizes = now.compiled, dict(now.sizes)
    taken = c.taken_blocks(binding, sizes) if binding else ()
    if not taken:
        return ()
    return tuple(Weighed(x, x.value in taken) for x in c.weighed_blocks(binding, sizes))
