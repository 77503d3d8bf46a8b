"""Thread blocks of a kernel on a data-sheet GPU: occupancy and time.

A block takes the longest of four times. `alone_us`: on a multiprocessor of its own, with unhidden
memory latency. Its part of the multiprocessor's arithmetic, which resident blocks share evenly. Its
part of the chip's bandwidth, which all running blocks share evenly. Its launch, as a multiprocessor
launches one block at a time (`dispatch_us`). Large tiles agree with Roller's micro performance
model (section 3.3); small ones are bound by latency. Cycles of shared-memory bank conflicts are
added to the arithmetic, which they stall.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.devices.model import Device, MemoryLevel
from explorer.ir.decisions.tiling import Tiling
from explorer.tile.gpu.demand import Demand, Work

LOAD_BYTES = 4  # of one load of one thread: a float32; assumed
ADDRESS_REGISTERS, LEAST_REGISTERS = (
    24,
    32,
)  # registers of a thread beside its tile, and in total: assumed
UNDER_WAY_PIECES = (
    4  # pieces in flight that saturate a matrix unit: assumed, 33 cycles of 8 each on an A100
)
AS_FAST_RATIO = 1.05  # grids within this ratio are ranked by multiprocessor time; chosen
NAMES = ("alone", "compute", "memory", "dispatch")
PARTS = (
    ("compute", "compute"),
    ("memory", "memory"),
    ("alone", "waiting"),
    ("dispatch", "beginning"),
)  # names as in NAMES, with the words for the excess of each


@dataclass(frozen=True, slots=True)
class ThreadBlocks:
    """A grid of equal blocks of one kernel.

    `registers` and `shared_bytes` are per block; a warp has all of its registers and issue slots,
    however few of its lanes are active. `block` is what is printed of it, or None.

    `alone_us`: one block without others; `compute_us`: its arithmetic at the multiprocessor's
    reached rate, and bank conflicts; `memory_us`: its bytes at the chip's full bandwidth.
    """

    label: str
    grid: int
    threads: int
    registers: int
    shared_bytes: int
    alone_us: float
    compute_us: float
    memory_us: float
    block: Tiling | None = None
    dispatch_us: float = 0.0

    def resident(self, device: Device) -> int:
        """Return the number of blocks that a multiprocessor holds at once, at least 1."""
        by_threads = device.unit_threads // (_warps(device, self.threads) * device.lanes)
        by_registers = device.unit_registers // max(1, self.registers)
        by_shared = device.unit_shared_bytes // max(1, self.shared_bytes)
        return max(1, min(device.unit_blocks or 1, by_threads, by_registers, by_shared))

    def terms(self, beside: int, flying: int) -> tuple[tuple[str, float], ...]:
        """Return the four times of a block, of which the longest counts.

        `beside` blocks share its multiprocessor and `flying` the chip.
        """
        own = self.alone_us, self.compute_us * beside, self.memory_us * flying
        times = (*own, self.dispatch_us * beside)
        return tuple(zip(NAMES, times, strict=True))

    def task_us(self, beside: int, flying: int) -> float:
        """Return the time of a block if `beside` share its multiprocessor and `flying` the chip."""
        return max(us for _, us in self.terms(beside, flying))

    def beside(self, device: Device, blocks: int, most: int) -> tuple[int, int]:
        """Return how many of `blocks` share a multiprocessor, which takes `most`, and the chip."""
        resident = min(most, max(1, -(-blocks // device.units)))
        return resident, max(1, min(blocks, resident * device.units))

    def whole_us(self, device: Device, most: int = 0) -> float:
        """Return the time of the grid alone on the device, in waves of resident blocks.

        Each multiprocessor holds as many as fit, or `most`.
        """
        resident, flying = self.beside(device, self.grid, most or self.resident(device))
        return -(-self.grid // (resident * device.units)) * self.task_us(resident, flying)

    def parts_us(self, device: Device) -> tuple[tuple[str, float], ...]:
        """Split `whole_us` by cause: arithmetic, memory, waits, and launches.

        Each counts only for the time that it exceeds those before it.
        """
        resident, flying = self.beside(device, self.grid, self.resident(device))
        waves, reached = -(-self.grid // (resident * device.units)), 0.0
        times, parts = dict(self.terms(resident, flying)), list[tuple[str, float]]()
        for name, word in PARTS:
            more = max(0.0, times[name] - reached)
            reached += more
            parts.append((word, waves * more))
        return tuple(parts)

    def is_latency_bound(self, device: Device, most: int) -> bool:
        """Return True if a block takes as long as alone, though others run beside it."""
        return self.alone_us >= self.task_us(*self.beside(device, self.grid, most))

    def area_us(self, device: Device) -> float:
        """Return the multiprocessor time of the grid if all are full of such blocks.

        The artifact calls this time times resources.
        """
        resident = self.resident(device)
        return self.grid * self.task_us(resident, resident * device.units) / resident


def thread_blocks(
    device: Device,
    label: str,
    demand: Demand,
    moved: tuple[float, float],
    block: Tiling | None = None,
) -> ThreadBlocks:
    """Return the blocks of a demand.

    `moved`: one block's bytes from shared memory levels and, of these, from the farthest.
    """
    near, far = _shared_levels(device)
    wait_us = (far if moved[1] else near).latency_ns / 1e3
    loading = demand.threads * device.thread_loads * LOAD_BYTES  # bytes in flight
    load_us = moved[0] / max(1, loading) * wait_us
    waiting_us = max(demand.steps * wait_us, load_us) + demand.phases * device.phase_ns / 1e3
    conflicts_us = demand.conflicts / (device.clock_ghz * 1e3)
    compute_us = demand.operations / (device.reached_gflops_per_unit * 1e3)
    compute_us += _matrix_us(device, demand, 1.0)
    chip = (device.all_gb_per_s(near), device.all_gb_per_s(far))
    memory_us = max(moved[0] / (chip[0] * 1e3), moved[1] / (chip[1] * 1e3))
    each = max(LEAST_REGISTERS, demand.thread_elements + ADDRESS_REGISTERS)
    plain = [w for w in demand.work if not w.matrix]
    alone = sum(w.operations / _arithmetic_reach(device, w.working, w.results) for w in plain)
    computing_us = alone / (device.reached_gflops_per_unit * 1e3)
    reach = min((_matrix_reach(device, w) for w in demand.work if w.matrix), default=1.0)
    computing_us += _matrix_us(device, demand, reach)
    return ThreadBlocks(
        label, demand.grid, demand.threads,
        _warps(device, demand.threads) * device.lanes * each,
        demand.shared_bytes,
        device.task_ns / 1e3 + waiting_us + computing_us + conflicts_us,
        compute_us + conflicts_us, memory_us, block, device.task_ns / 1e3,
    )  # fmt: skip


def _shared_levels(device: Device) -> tuple[MemoryLevel, MemoryLevel]:
    """Return the nearest and the farthest memory level that units share."""
    return next(m for m in device.levels if m.shared), device.levels[-1]


def _warps(device: Device, threads: int) -> int:
    return -(-max(1, threads) // device.lanes)


def _arithmetic_reach(device: Device, threads: int, outputs: int) -> float:
    """Return the share of a multiprocessor's arithmetic that one block keeps busy.

    A warp has one multiply-add in flight for each output of a thread, and a scheduler alternates
    between its warps.
    """
    warps = _warps(device, threads)
    under_way = warps * min(device.pipeline_cycles, max(1, outputs))
    by_latency = under_way / (device.pipeline_cycles * device.fma_per_cycle)
    return min(1.0, by_latency, warps / max(1, device.schedulers))


def _matrix_us(device: Device, demand: Demand, reach: float) -> float:
    """Return the time of a block on matrix units, or of their operand reads if that is longer."""
    if not demand.matrix_operations:
        return 0.0
    multiplying_us = demand.matrix_operations / (device.unit_matrix_gflops * 1e3) / reach
    return max(multiplying_us, demand.matrix_reads / (device.clock_ghz * 1e3))


def _matrix_reach(device: Device, work: Work) -> float:
    """Return the share of a multiprocessor's matrix units that one block keeps busy.

    Each scheduler has one, and a warp has its pieces in flight there.
    """
    warps = _warps(device, work.working)
    each = min(UNDER_WAY_PIECES, work.results) / UNDER_WAY_PIECES
    return min(1.0, warps * each / max(1, device.schedulers))
