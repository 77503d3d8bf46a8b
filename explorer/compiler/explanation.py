"""Explanation of the tiling of a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.devices.target import target_of
from explorer.errors import BadOption
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling, TilingDecision
from explorer.ir.dims import Sizes
from explorer.ir.program import Binding, Program
from explorer.ir.stage import Stage
from explorer.printed import Printed


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Printed):
    """The decision on one kernel: tilings best first, the requested one, and the merges weighed.

    Thread blocks are chosen by the wall: `blocks` are those of the binding, the fastest alone
    first, `taken` those that it uses, and `none` says why there are none.
    """

    kernel: str
    origins: tuple[str, ...]
    tilings: TilingDecision | None
    requested: Candidate[Tiling] | None
    merges: tuple[Candidate[bool], ...]
    blocks: tuple[Candidate[Tiling], ...] = ()
    taken: tuple[Tiling, ...] = ()
    none: str = ""

    def __str__(self) -> str:
        """Return a line for each candidate with its cost."""
        lines = [f"{self.kernel}, from {', '.join(self.origins)}"]
        if self.tilings is not None:
            lines += _tilings(self.tilings)
        lines += self._thread_blocks()
        lines += [f"no thread blocks: {self.none}"] if self.none else []
        if self.requested is not None:
            lines.append(f"asked: {_cost(self.requested)}  {self.requested.label}")
        lines += [f"merge: {_cost(m)}  {m.label}" for m in self.merges]
        return "\n".join(lines)

    def _thread_blocks(self) -> Iterator[str]:
        """Yield a line for each thread block."""
        for n, c in enumerate(self.blocks):
            mark = ">" if c.value in self.taken else " "
            yield f"{mark} {n + 1:2d} {_cost(c)}  {c.label}"


def explained(
    program: Program,
    device: Device,
    binding: Binding,
    sizes: Sizes,
    tile: Mapping[str, int] | None = None,
) -> Explanation:
    """Return Roller's decision on a kernel call, and the cost of another tile.

    Raises:
        BadOption: There is no decision.
    """
    graph, name, kernel = program.decisions.tile_graph, binding.name, binding.kernel_call.kernel
    group = next((g for g in graph.groups if g.name == name), None) if graph else None
    steps, origins = group.steps if group else (), tuple(sorted(binding.origin))
    requested: Candidate[Tiling] | None = None
    decision = program.decisions.tiling(name)
    if decision is None and program.stage < Stage.ROLLED:
        why = f"{name} has no tiles yet: it was compiled until {program.stage.title}"
        raise BadOption(why, where=name)
    if decision is None:
        why = target_of(device).why_no_tiles(kernel, device, sizes)
        return Explanation(name, origins, None, None, steps, none=why)
    if tile is not None:
        tiling = replace(decision.chosen, tile=tuple(tile.items()))
        requested = target_of(device).weigh(kernel, tiling, program, sizes, device)
    if decision.chosen.is_thread_block:
        blocks, chosen = decision.candidates, (decision.chosen,)
        return Explanation(name, origins, None, requested, steps, blocks, chosen)
    return Explanation(name, origins, decision, requested, steps)


def _tilings(decision: TilingDecision) -> Iterator[str]:
    """Yield a line for each tiling."""
    timed = {m.tiling: m for m in decision.measured}
    for n, c in enumerate(decision.candidates):
        mark = ">" if c.value == decision.chosen else " "
        line = f"{mark} {n + 1:2d} {_cost(c)}  {c.label}"
        if (m := timed.get(c.value)) is not None:
            line += f": {m.measured_us:.1f} us timed alone, number {m.rank} by the model"
        yield line


def _cost(c: Candidate[Tiling | bool]) -> str:
    """Format the cost of a candidate, or the reason why it was refused."""
    if c.refused:
        return f"refused: {c.refused}"
    terms = ", ".join(f"{name} {us:.1f}" for name, us in c.terms if us)
    return f"{c.cost_us:8.1f} us predicted ({terms})"
