"""What Rammer is told of a program on a data-sheet device: grids of thread blocks of each call, and
as many units as blocks are resident.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from explorer.cost.thread_blocks import ThreadBlocks
from explorer.devices.model import Device
from explorer.grinder import OperatorTask
from explorer.ir.decisions.tiling import Block, Chosen
from explorer.ir.kernel import Kernel
from explorer.ir.program import Program
from explorer.ir.shapes.dims import Sizes
from explorer.rammer import Facts, VDevice
from explorer.rammer import Options as RammerOptions
from explorer.rammer.device_sheet_kernels import GridOperator, device_facts, virtual_devices
from explorer.roller.blocks.gpu_candidates import comes_cold, grids_of
from explorer.roller.blocks.remembered_grids import remembered_grids
from explorer.roller.blocks.thread_block import launched
from explorer.runtime.planning.extents import Extents

Binding: TypeAlias = tuple[tuple[str, int], ...]  # of symbols, by name
ALONE = "op-by-op"  # the policy under which an operator has the device to itself


class SheetTimes:
    """Grids of kernel calls on a data sheet; those of equal kernels are worked out once. `chosen`:
    under a binding the blocks that calls have, of which no others are looked for where they fit.
    """

    def __init__(
        self,
        program: Program,
        device: Device,
        chosen: Callable[[Sizes], Chosen] | None = None,
    ) -> None:
        self.device = device
        self._blocks_of = chosen or (lambda sizes: {})
        self._chosen: tuple[Binding, Chosen] | None = None  # those of one binding
        self.cold = comes_cold(program, device)
        self._named: dict[tuple[Kernel, Binding], Kernel] = {}
        self._known: dict[tuple[Kernel, tuple[Block, ...]], tuple[ThreadBlocks, ...]] = {}

    def of(self, operator: OperatorTask, sizes: Sizes) -> tuple[ThreadBlocks, ...]:
        """The grids that a call could be launched with under a binding."""
        binding = tuple(sorted(sizes.items()))
        known = self._chosen
        if known is None or known[0] != binding:
            known = self._chosen = binding, self._blocks_of(sizes)
        blocks = tuple(known[1].get(operator.binding, ()))
        return self._of(operator, sizes, blocks) or self.weighed(operator, sizes)

    def weighed(self, operator: OperatorTask, sizes: Sizes) -> tuple[ThreadBlocks, ...]:
        """The same where nothing was chosen before."""
        return self._of(operator, sizes, ())

    def _of(
        self, operator: OperatorTask, sizes: Sizes, blocks: tuple[Block, ...]
    ) -> tuple[ThreadBlocks, ...]:
        key = (operator.call.kernel, tuple(sorted(sizes.items())))
        if key not in self._named:
            self._named[key] = launched(operator.call.kernel, sizes)
        kernel = self._named[key]
        if (kernel, blocks) not in self._known:
            self._known[kernel, blocks] = (
                grids_of(kernel, self.device, blocks, self.cold)
                if blocks
                else remembered_grids(kernel, self.device, self.cold)
            )
        return self._known[kernel, blocks]

    def facts(
        self,
        runs: Sequence[tuple[Sequence[OperatorTask], Sequence[tuple[int, ...]]]],
        sizes: Sizes,
        extents: Extents,
        rammer: RammerOptions,
    ) -> Iterator[tuple[VDevice, list[Facts]]]:
        """The units that all runs may share, and what each is told then, those that are estimated
        to be best first; a run is its operators and, for each, the positions of those that it waits
        for.
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
