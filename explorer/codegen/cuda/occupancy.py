"""The thread blocks that a multiprocessor of a data sheet holds, and what limits them."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.devices.model import Device

WARP_REGISTERS = 256  # allocation unit of a warp: CUDA occupancy calculator, 3.0 on
RESERVED_BYTES = 1024  # of shared memory in each block from 8.0 on: CUDA C++ guide, 20.7.3
RESERVES = 80  # tenths, the first compute capability that reserves bytes


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The occupancy of a multiprocessor.

    `blocks` are resident together, with `warps` of at most `most_warps`. `limits` are the blocks
    that each of its resources would allow.
    """

    blocks: int
    warps: int
    most_warps: int
    limits: tuple[tuple[str, int], ...]

    @property
    def share(self) -> float:
        """The share of the most warps that is resident."""
        return self.warps / max(1, self.most_warps)

    @property
    def limited_by(self) -> str:
        """The first resource that allows no more blocks."""
        return next(name for name, blocks in self.limits if blocks == self.blocks)

    @property
    def summary(self) -> str:
        """The occupancy in one line."""
        many = "block" if self.blocks == 1 else "blocks"
        return f"occupancy {self.share:.0%}: {self.blocks} {many} a unit, by {self.limited_by}"


def occupancy(device: Device, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Return the occupancy of blocks of `threads` threads.

    `registers` are those of a thread, `shared_bytes` those of a block.
    """
    warps = -(-max(1, threads) // device.lanes)
    per_warp = -(-registers * device.lanes // WARP_REGISTERS) * WARP_REGISTERS
    own = RESERVED_BYTES if device.capability >= RESERVES else 0
    most_warps = device.unit_threads // device.lanes
    limits = (
        ("threads", most_warps // warps),
        ("registers", device.unit_registers // max(1, per_warp) // warps),
        ("shared memory", device.unit_shared_bytes // max(1, shared_bytes + own)),
        ("blocks", device.unit_blocks),
    )
    blocks = min(n for _, n in limits)
    return Occupancy(blocks, blocks * warps, most_warps, limits)
