"""Rules for tiles on a GPU: registers of a thread, then shared memory of a block."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod

from explorer.devices.model import Device
from explorer.roller.construct.alignment import (
    RuleCheck,
    aligned_base,
    bank_padding,
    execution_unit,
    memory_transaction,
)
from explorer.roller.construct.expression import TensorAccess, reads_of
from explorer.roller.construct.levels import Larger, Room, TileLevel
from explorer.roller.construct.rtile import RTile

SHARED, REGISTERS = 0, 1
REGISTER_STEPS = (1, 2, 4, 8, 16, 32)  # Roller artifact
SHARED_STEPS = 32  # multiples of the base; Roller artifact
STREAMED_STEPS = 512  # for memory-bound operators; Roller artifact
MOST_DEPTH_ELEMENTS, STREAMED_DEPTH_ELEMENTS = 32, 128  # of a reduced axis; Roller artifact
LEAST_OUTPUTS = 2  # of a thread, for memory-bound operators; Roller artifact
WORD_BYTES = 4  # of a register
EPS_STEP, STREAMED_EPS_STEP = 0.2, 0.1  # Roller artifact


@dataclass(frozen=True, slots=True)
class GpuRules:
    """Roller's rules for a GPU's data sheet.

    `streamed`: the policy for memory-bound operators, which wants full transactions and busy
    threads instead of reuse.
    """

    device: Device
    streamed: bool = False
    choice_eps: float = inf  # none beyond what any result may waste
    kept_tiles: int = 0

    @property
    def eps_step(self) -> float:
        """The step in which the allowed waste grows from round to round."""
        return STREAMED_EPS_STEP if self.streamed else EPS_STEP

    @property
    def levels(self) -> tuple[TileLevel, ...]:
        """Shared memory, fed by DRAM; registers, fed by shared memory."""
        d, near, far = self.device, self.device.levels[0], self.device.levels[-1]
        shared = TileLevel(
            "shared memory", far.name, d.block_shared_bytes, "bytes",
            d.each_gb_per_s(far), d.transaction_bytes,
        )  # fmt: skip
        registers = TileLevel(
            "registers", "shared memory", d.thread_registers, "registers of a thread",
            d.each_gb_per_s(near), d.banks * d.bank_bytes,
        )  # fmt: skip
        return shared, registers

    def sizes(self, base: RTile, level: int) -> tuple[tuple[int, ...], ...]:
        """Return the aligned sizes of every axis.

        They are powers of two in registers, and multiples in shared memory. There the innermost
        axis is whole transactions, or its extent if that is shorter. Reduced axes have a cap.
        """
        e = base.expression
        if level == REGISTERS:
            spatial = [tuple(s * k for k in REGISTER_STEPS) for s in base.spatial]
            return (*spatial, *((r,) for r in base.reduced))
        item = e.inputs[0].item_bytes if e.inputs else WORD_BYTES
        line = self.device.transaction_bytes
        first = list(base.spatial)
        if first:
            covering = -(-e.extents[e.spatial - 1] // first[-1]) * first[-1]
            first[-1] = min(aligned_base(first[-1], item, line), covering)
        most = STREAMED_STEPS if self.streamed else SHARED_STEPS
        spatial = [tuple(s * k for k in range(1, most + 1)) for s in first]
        reduced = zip(base.reduced, e.extents[e.spatial :], strict=True)
        return (*spatial, *(self._depths(aligned_base(r, item, line), n) for r, n in reduced))

    def _depths(self, base: int, extent: int) -> tuple[int, ...]:
        cap = min(extent, STREAMED_DEPTH_ELEMENTS if self.streamed else MOST_DEPTH_ELEMENTS)
        size = base * 4 if self.streamed else base
        depths = [min(size, cap)]
        while size < cap:
            size *= 2 if self.streamed else 4
            depths.append(min(size, cap))
        return tuple(depths)

    def clips(self, level: int) -> bool:
        """Return False: threads out of bounds compute results that are not stored."""
        return False

    def stored(self, tiles: tuple[RTile, ...], level: int) -> RTile:
        """Return the tile padded so that rows of different threads begin in different banks."""
        tile = tiles[0]
        if level != SHARED:
            return tile
        pads = map(self._padding, tile.expression.inputs, tile.input_tiles, tiles[1].input_tiles)
        return tile.padded(tuple(pads))

    def _padding(self, access: TensorAccess, box: tuple[int, ...], read: tuple[int, ...]) -> int:
        if len(box) < 2 or prod(read[:-1]) == 1:
            return 0
        items = max(1, self.device.bank_bytes // access.item_bytes)
        return bank_padding(box[-1], read[-1], self.device.banks, items)

    def rooms(self, tiles: tuple[RTile, ...], level: int) -> tuple[Room, ...]:
        """Return the use of a thread's registers, or of a block's shared memory and threads."""
        d, mine = self.device, _registers(tiles[-2])
        if level == REGISTERS:
            return (Room("registers of a thread", mine, d.thread_registers),)
        threads = tiles[0].count(tiles[1])
        return (
            Room("shared bytes of a block", tiles[0].footprint_bytes, d.block_shared_bytes),
            Room("registers of a block", threads * mine, d.block_registers),
            Room("threads of a block", threads, d.block_threads),
        )

    def aligned(self, tiles: tuple[RTile, ...], level: int) -> RuleCheck:
        """Check that a block is whole warps for all schedulers; for streams, whole warps."""
        if level == REGISTERS:
            return execution_unit(1, 1)
        unit = self.device.lanes * (1 if self.streamed else max(1, self.device.schedulers))
        return execution_unit(tiles[0].count(tiles[1]), unit)

    def saturated(self, tiles: tuple[RTile, ...], level: int, larger: Larger) -> bool:
        """Return True if computing takes longer than loading.

        For streams, threads must have at least two outputs, and rows be whole transactions.
        """
        if not self.streamed:
            return self.compute_us(tiles[0], level) > self.memory_us(tiles[0], level)
        if tiles[-2].points < LEAST_OUTPUTS:
            return False
        return level == REGISTERS or all(a.holds for a in self.transactions(tiles[0]))

    def transactions(self, tile: RTile) -> tuple[RuleCheck, ...]:
        """Check the transaction rule for every tensor, the output last."""
        line = self.device.transaction_bytes
        boxes = zip(reads_of(tile.expression), tile.data_tiles, strict=True)
        return tuple(
            memory_transaction(box[-1], a.shape[-1], a.item_bytes, line) for a, box in boxes if box
        )

    def compute_us(self, tile: RTile, level: int) -> float:
        """Return the time at the part of the peak that kernels reach."""
        return tile.operations / (self.device.reached_gflops_per_unit * 1e3)

    def memory_us(self, tile: RTile, level: int) -> float:
        """Return the time at one unit's share of the bandwidth of the level's source."""
        source = self.device.levels[-1 if level == SHARED else 0]
        return tile.traffic_bytes / (self.device.each_gb_per_s(source) * 1e3)

    def order(self, tile: RTile, scores: tuple[float, ...], level: int) -> tuple[int, ...]:
        """Return the axes by score; for streams from the innermost axis outwards."""
        axes = range(len(scores))
        if self.streamed:
            return tuple(reversed(axes))
        return tuple(sorted(axes, key=lambda d: -scores[d]))


def _registers(tile: RTile) -> int:
    boxes = zip(reads_of(tile.expression), tile.data_tiles, strict=True)
    return sum([prod(box) * a.item_bytes // WORD_BYTES for a, box in boxes])
