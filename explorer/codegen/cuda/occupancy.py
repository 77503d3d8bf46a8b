"""How many blocks a multiprocessor of a data sheet holds at the same time, and what limits them."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.devices.model import Device

WARP_REGISTERS = 256  # a warp gets so many at a time: CUDA occupancy calculator, 3.0 on
RESERVED_BYTES = 1024  # of shared memory in each block from 8.0 on: CUDA C++ guide, 20.7.3
RESERVES = 80  # tenths, the first compute capability that does


@dataclass(frozen=True, slots=True)
class Occupancy:
    """`blocks` that a multiprocessor holds, `warps` of them and the most that there may be;
    `limits` are the blocks that each of its resources would allow.
    """

    blocks: int
    warps: int
    most_warps: int
    limits: tuple[tuple[str, int], ...]

    @property
    def share(self) -> float:
        """The part of the warps that could be resident."""
        return self.warps / max(1, self.most_warps)

    @property
    def limited_by(self) -> str:
        """The first resource that allows no more blocks."""
        return next(name for name, blocks in self.limits if blocks == self.blocks)

    @property
    def words(self) -> str:
        """In one line."""
        many = "block" if self.blocks == 1 else "blocks"
        return f"occupancy {self.share:.0%}: {self.blocks} {many} a unit, by {self.limited_by}"


def occupancy(device: Device, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Of blocks of `threads` threads with so many registers each, and shared bytes a block."""
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
