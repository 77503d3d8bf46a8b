"""Facts about a program on a data-sheet device: grids of thread blocks, and resident blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from explorer.cost.thread_blocks import ThreadBlocks
from explorer.devices.model import Device
from explorer.grinder import OperatorTask
from explorer.ir.decisions.tiling import Chosen, Tiling
from explorer.ir.dims import Sizes
from explorer.ir.kernel import Kernel
from explorer.ir.program import Program
from explorer.memory.extents import Extents
from explorer.rammer import Facts, VDevice
from explorer.rammer import Options as RammerOptions
from explorer.rammer.device_sheet_kernels import GridOperator, device_facts, virtual_devices
from explorer.roller.blocks.candidates import cached_grids
from explorer.roller.blocks.gpu_candidates import grids_of, has_cold_constants
from explorer.roller.blocks.thread_block import launched

Binding: TypeAlias = tuple[tuple[str, int], ...]  # of symbols, by name
ALONE = "op-by-op"  # the policy under which an operator has the device to itself


class SheetTimes:
    """Grids of kernel calls on a data sheet, computed once for equal kernels.

    `chosen` returns the blocks that calls have under a binding; other blocks are only searched
    where these do not fit.
    """

    def __init__(
        self,
        program: Program,
        device: Device,
        chosen: Callable[[Sizes], Chosen] | None = None,
    ) -> None:
        """Prepare the grids of a program's calls."""
        self.device = device
        self._blocks_of = chosen or (lambda sizes: {})
        self._chosen: tuple[Binding, Chosen] | None = None  # of the latest binding
        self.cold = has_cold_constants(program, device)
        self._named: dict[tuple[Kernel, Binding], Kernel] = {}
        self._grids: dict[tuple[Kernel, tuple[Tiling, ...]], tuple[ThreadBlocks, ...]] = {}

    def of(self, operator: OperatorTask, sizes: Sizes) -> tuple[ThreadBlocks, ...]:
        """Return the grids that a call could be launched with under a binding."""
        binding = tuple(sorted(sizes.items()))
        chosen = self._chosen
        if chosen is None or chosen[0] != binding:
            chosen = self._chosen = binding, self._blocks_of(sizes)
        blocks = tuple(chosen[1].get(operator.binding, ()))
        return self._of(operator, sizes, blocks) or self.all_grids(operator, sizes)

    def all_grids(self, operator: OperatorTask, sizes: Sizes) -> tuple[ThreadBlocks, ...]:
        """Return the grids of a call as if nothing was chosen before."""
        return self._of(operator, sizes, ())

    def _of(
        self, operator: OperatorTask, sizes: Sizes, blocks: tuple[Tiling, ...]
    ) -> tuple[ThreadBlocks, ...]:
        key = (operator.call.kernel, tuple(sorted(sizes.items())))
        if key not in self._named:
            self._named[key] = launched(operator.call.kernel, sizes)
        kernel = self._named[key]
        if (kernel, blocks) not in self._grids:
            self._grids[kernel, blocks] = (
                grids_of(kernel, self.device, blocks, self.cold)
                if blocks
                else cached_grids(kernel, self.device, self.cold)
            )
        return self._grids[kernel, blocks]

    def facts(
        self,
        runs: Sequence[tuple[Sequence[OperatorTask], Sequence[tuple[int, ...]]]],
        sizes: Sizes,
        extents: Extents,
        rammer: RammerOptions,
    ) -> Iterator[tuple[VDevice, list[Facts]]]:
        """Yield the units that all runs may share, with the facts of each run, best estimate first.

        A run is its operators and, for each, the positions of those that it waits for.
        """
        alone = rammer.policy_name == ALONE
        every = [
            [
                GridOperator(
                    o.name,
                    self.of(o, sizes) if all(extents.shape(o.results[0])) else (),
                    waits,
                    o.origin,
                )
                for o, waits in zip(operators, reads, strict=True)
            ]
            for operators, reads in runs
        ]
        for units in virtual_devices(every, self.device, alone, rammer.threads):
            yield units, [device_facts(run, self.device, units, alone) for run in every]
