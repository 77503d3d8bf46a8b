"""A kernel as thread blocks on a data-sheet device: how many a multiprocessor holds, and how long
one takes beside others.

A block takes the longest of four: what it needs on a multiprocessor of its own, with the waits for
memory that nothing hides (`alone_us`); its part of the multiprocessor's arithmetic, which resident
blocks share evenly; its part of the bandwidth of the chip, which all blocks under way share evenly;
and its turn to begin, for a multiprocessor begins one at a time (`dispatch_us`). Large tiles meet
Roller's micro performance model there (section 3.3); small ones wait. Cycles in which warps wait
for banks of shared memory are added to the arithmetic, which they hold up.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.devices.model import Device, MemoryLevel
from explorer.ir.decisions.tiling import Block
from explorer.tile.gpu.demand import Demand, Work

LOAD_BYTES = 4  # of one load of one thread: a float32; assumed
ADDRESS_REGISTERS, LEAST_REGISTERS = 24, 32  # of a thread, beside its tile; in all: assumed
UNDER_WAY_PIECES = 4  # until a matrix unit is busy: assumed, 33 cycles of 8 each on an A100
AS_FAST_RATIO = 1.05  # of grids up to this the one that takes least of the device; chosen
NAMES = ("alone", "compute", "memory", "dispatch")
PARTS = (
    ("compute", "compute"),
    ("memory", "memory"),
    ("alone", "waiting"),
    ("dispatch", "beginning"),
)  # of a time, as in NAMES, with what each takes longer than the others is called


@dataclass(frozen=True, slots=True)
class ThreadBlocks:
    """A grid of equal blocks of one kernel. `registers` and `shared_bytes` are of one block; a warp
    has all of its registers, and takes its turn, however few of its lanes have something to do.
    `block` is what is printed of it; None where nothing is.

    `alone_us`: one block with nothing beside it; `compute_us`: its arithmetic at all that a
    multiprocessor reaches, and conflicts of banks; `memory_us`: its bytes at all bandwidth of the
    chip.
    """

    label: str
    grid: int
    threads: int
    registers: int
    shared_bytes: int
    alone_us: float
    compute_us: float
    memory_us: float
    block: Block | None = None
    dispatch_us: float = 0.0

    def resident(self, device: Device) -> int:
        """How many blocks a multiprocessor holds at the same time, 1 at least."""
        by_threads = device.unit_threads // (_warps(device, self.threads) * device.lanes)
        by_registers = device.unit_registers // max(1, self.registers)
        by_shared = device.unit_shared_bytes // max(1, self.shared_bytes)
        return max(1, min(device.unit_blocks or 1, by_threads, by_registers, by_shared))

    def terms(self, beside: int, flying: int) -> tuple[tuple[str, float], ...]:
        """The four times of a block while `beside` share its multiprocessor and `flying` the chip,
        of which the longest counts.
        """
        own = self.alone_us, self.compute_us * beside, self.memory_us * flying
        times = (*own, self.dispatch_us * beside)
        return tuple(zip(NAMES, times, strict=True))

    def task_us(self, beside: int, flying: int) -> float:
        """The time of a block while `beside` share its multiprocessor and `flying` the chip."""
        return max(us for _, us in self.terms(beside, flying))

    def beside(self, device: Device, blocks: int, most: int) -> tuple[int, int]:
        """How many blocks share a multiprocessor and the chip where there are so many to run and
        a multiprocessor takes `most`.
        """
        held = min(most, max(1, -(-blocks // device.units)))
        return held, max(1, min(blocks, held * device.units))

    def whole_us(self, device: Device, most: int = 0) -> float:
        """The time of the grid alone on the device, in waves of as many blocks as it holds: on each
        multiprocessor as many as there is room for, or `most`.
        """
        held, flying = self.beside(device, self.grid, most or self.resident(device))
        return -(-self.grid // (held * device.units)) * self.task_us(held, flying)

    def parts_us(self, device: Device) -> tuple[tuple[str, float], ...]:
        """What `whole_us` is made of: arithmetic, and what memory, waits and beginnings take longer
        than what stands before them.
        """
        held, flying = self.beside(device, self.grid, self.resident(device))
        waves, reached = -(-self.grid // (held * device.units)), 0.0
        times, found = dict(self.terms(held, flying)), list[tuple[str, float]]()
        for name, word in PARTS:
            more = max(0.0, times[name] - reached)
            reached += more
            found.append((word, waves * more))
        return tuple(found)

    def waits(self, device: Device, most: int) -> bool:
        """Whether a block takes as long as it would alone, though others are beside it."""
        return self.alone_us >= self.task_us(*self.beside(device, self.grid, most))

    def area_us(self, device: Device) -> float:
        """Multiprocessor time that the grid takes where all are full of such blocks: what the
        artifact calls time times resources.
        """
        held = self.resident(device)
        return self.grid * self.task_us(held, held * device.units) / held


def thread_blocks(
    device: Device,
    label: str,
    demand: Demand,
    moved: tuple[float, float],
    block: Block | None = None,
) -> ThreadBlocks:
    """Blocks of that demand. `moved`: bytes of one from memory that all share and, of these, from
    the farthest.
    """
    near, far = _shared(device)
    wait_us = (far if moved[1] else near).latency_ns / 1e3
    loading = demand.threads * device.thread_loads * LOAD_BYTES  # bytes under way
    load_us = moved[0] / max(1, loading) * wait_us
    waiting_us = max(demand.steps * wait_us, load_us) + demand.phases * device.phase_ns / 1e3
    conflicts_us = demand.conflicts / (device.clock_ghz * 1e3)
    compute_us = demand.operations / (device.reached_gflops_per_unit * 1e3)
    compute_us += _matrix_us(device, demand, 1.0)
    chip = (device.all_gb_per_s(near), device.all_gb_per_s(far))
    memory_us = max(moved[0] / (chip[0] * 1e3), moved[1] / (chip[1] * 1e3))
    each = max(LEAST_REGISTERS, demand.thread_elements + ADDRESS_REGISTERS)
    plain = [w for w in demand.work if not w.matrix]
    alone = sum(w.operations / _reach(device, w.working, w.results) for w in plain)
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


def _shared(device: Device) -> tuple[MemoryLevel, MemoryLevel]:
    """The nearest memory that units share, and the farthest."""
    return next(m for m in device.levels if m.shared), device.levels[-1]


def _warps(device: Device, threads: int) -> int:
    return -(-max(1, threads) // device.lanes)


def _reach(device: Device, threads: int, outputs: int) -> float:
    """The part of a multiprocessor's arithmetic that one block keeps busy: a warp has one
    multiply-add under way for each output of a thread, and a scheduler takes turns with its warps.
    """
    warps = _warps(device, threads)
    under_way = warps * min(device.pipeline_cycles, max(1, outputs))
    by_latency = under_way / (device.pipeline_cycles * device.fma_per_cycle)
    return min(1.0, by_latency, warps / max(1, device.schedulers))


def _matrix_us(device: Device, demand: Demand, reach: float) -> float:
    """What a block takes on matrix units, of which it keeps a part busy, or longer, until shared
    memory has given it the operands.
    """
    if not demand.matrix_operations:
        return 0.0
    multiplying_us = demand.matrix_operations / (device.unit_matrix_gflops * 1e3) / reach
    return max(multiplying_us, demand.matrix_reads / (device.clock_ghz * 1e3))


def _matrix_reach(device: Device, work: Work) -> float:
    """The part of a multiprocessor's matrix units that one block keeps busy: each scheduler has
    one, and a warp has its pieces under way there.
    """
    warps = _warps(device, work.working)
    each = min(UNDER_WAY_PIECES, work.results) / UNDER_WAY_PIECES
    return min(1.0, warps * each / max(1, device.schedulers))
