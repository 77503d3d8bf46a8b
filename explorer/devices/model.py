"""Capabilities of hardware as data: memory levels, units, limits. Every number names its unit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from explorer.devices.costs import Costs, PythonTimes
from explorer.devices.isa import InstructionSet
from explorer.ir.by_identity import by_identity
from explorer.plain_text import counted, size

THIS_CPU = "this-cpu"  # the name of the machine that this runs on
LINE_BYTES = 64  # of a cache: x86 and most of Arm
PAGE_BYTES = 4096  # the smallest page of x86 and Arm
MATRIX_CAPABILITY = 80  # tenths, of `mma` on bfloat16: PTX ISA
WARP_LANES = 32  # of NVIDIA's warps, which one instruction multiplies with
FAR_WAYS = 16  # of L2, in Zen 5 and Skylake's server parts: AMD 58455, 2.6; Intel 248966, 2.5


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """One memory, as one unit sees it.

    `shared`: all units share it; the last level has no capacity limit. `ways`: lines in one set of
    a cache; `latency_ns`: time until a loaded value can be used; 0 if unknown.

    `alone_gb_per_s` is the bandwidth of one unit while no other reads, which seldom determines a
    time: `Device.each_gb_per_s` and `Device.all_gb_per_s` are the bandwidths when units read at the
    same time.
    """

    name: str
    capacity_bytes: int | None
    alone_gb_per_s: float
    line_bytes: int
    shared: bool = False
    ways: int = 0
    latency_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class LevelMemory:
    """One memory level as a tile sees it.

    `capacity`: bytes that a task has (None: all). `read_bytes`, `write_bytes`: the size of one
    transfer between this memory and the next farther one. A cache moves whole lines, and keeps what
    consecutive tasks share for as long as it has room.
    """

    name: str
    capacity: int | None
    read_bytes: int
    write_bytes: int
    gb_per_s: float  # of all units together, from the next farther memory
    shared: bool = False
    cache: bool = False


@dataclass(frozen=True, slots=True)
class Device:
    """A machine: equal units over memory levels, nearest first.

    `lanes`: float32 lanes of a vector register (or threads of a warp); `fma_per_cycle`: vector
    fused multiply-adds that a unit starts in a cycle. `task_ns`, `barrier_us`, `launch_us`:
    overheads of the runtime for each task, barrier and launch.

    Limits of tiles on a GPU (0: no limit, or unknown): threads, registers and shared bytes of a
    block; elements of a thread's register tile; warp schedulers, threads, blocks, shared bytes and
    registers of a unit; bytes of a bank, and of the smallest memory transaction. `unit_gflops`:
    throughput that kernels reach on one unit. `thread_loads`: 4-byte loads that a thread has in
    flight; `pipeline_cycles`: latency of a multiply-add; `phase_ns`: time between two phases of a
    block, 0 if unknown. `unit_matrix_gflops`: throughput of 16-bit products with float32 sums on
    the matrix units of one unit, 0 without matrix units. `capability`: ten times NVIDIA's compute
    capability of a GPU, 0 without one.
    """

    name: str
    kind: str  # "cpu" or "gpu"
    units: int
    lanes: int
    registers: int
    fma_per_cycle: float
    clock_ghz: float
    levels: tuple[MemoryLevel, ...]
    launch_us: float = 1.0
    barrier_us: float = 0.5
    task_ns: float = 30.0
    banks: int = 0
    block_threads: int = 0
    block_registers: int = 0
    block_shared_bytes: int = 0
    thread_registers: int = 0
    schedulers: int = 0
    unit_threads: int = 0
    unit_blocks: int = 0
    unit_shared_bytes: int = 0
    unit_registers: int = 0
    bank_bytes: int = 4
    transaction_bytes: int = 0
    unit_gflops: float = 0.0
    unit_matrix_gflops: float = 0.0
    thread_loads: int = 1
    capability: int = 0
    phase_ns: float = 0.0
    pipeline_cycles: int = 4  # of most CPUs: Fog, Instruction tables, 2025
    sources: tuple[tuple[str, str], ...] = ()  # (field, where its number is from)
    costs: Costs = Costs()
    python: PythonTimes = PythonTimes()
    figures: str = ""  # "measured" or "default": how those of a machine that is here were found
    isa: InstructionSet = InstructionSet()  # what code for a CPU is made for
    target: str = ""  # the name of the target that compiles for it; "": that of its kind
    base: Device | None = field(default=None, repr=False, compare=False)  # what it was changed from

    def __str__(self) -> str:
        """Return the name, the units and the memory levels."""
        levels = ", ".join(_level(m) for m in self.levels)
        return f"{self.name}: {counted(self.units, self.unit_word)}, {levels}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the device as one line; its full repr is part of keys."""
        printer.text(str(self))  # its repr, all of it, is part of keys

    @property
    def unit_word(self) -> str:
        """The word for a unit: core of a CPU, SM (streaming multiprocessor) of a GPU."""
        return "SM" if self.kind == "gpu" else "core"

    @property
    def is_this_cpu(self) -> bool:
        """True for the machine that this runs on, also with changed figures.

        The latter is an experiment: code runs here, and predictions are for the changed hardware.
        """
        return (self.base or self).name == THIS_CPU

    @property
    def takes_cuda(self) -> bool:
        """True if Numba generates CUDA code for it: it has a compute capability."""
        return self.capability > 0

    @property
    def has_matrix_units(self) -> bool:
        """True if warps multiply 16-bit pieces of matrices together, with float32 sums."""
        takes = self.capability >= MATRIX_CAPABILITY and self.lanes == WARP_LANES
        return takes and self.unit_matrix_gflops > 0

    @property
    def peak_gflops_per_unit(self) -> float:
        """float32 operations of one unit in GFLOP/s; a fused multiply-add counts as two."""
        return 2.0 * self.lanes * self.fma_per_cycle * self.clock_ghz

    @property
    def reached_gflops_per_unit(self) -> float:
        """Throughput that kernels reach on one unit in GFLOP/s; the peak if it is unknown."""
        return self.unit_gflops or self.peak_gflops_per_unit

    @property
    def sustained_gflops(self) -> float:
        """Throughput that kernels reach on all units in GFLOP/s; 0 if unknown."""
        return self.unit_gflops * self.units

    @property
    def matrix_gflops(self) -> float:
        """Throughput of the matrix units of all units in GFLOP/s; 0 without matrix units."""
        return self.unit_matrix_gflops * self.units

    def level(self, name: str) -> MemoryLevel:
        """Return the memory level of that name."""
        return next(m for m in self.levels if m.name == name)

    def ways(self, level: MemoryLevel) -> int:
        """Return the associativity of a cache.

        If it is unknown, the nearest cache is taken to be indexed before translation, so its sets
        span a page.
        """
        if level.ways or level.name != self.levels[0].name:
            return level.ways or FAR_WAYS
        return max(1, (level.capacity_bytes or 0) // PAGE_BYTES)

    @property
    def cached_bytes(self) -> int:
        """Capacity of the largest cache; 0 without one.

        Larger data comes from memory whenever it is read.
        """
        return max((m.capacity_bytes or 0 for m in self.levels[:-1]), default=0)

    def each_gb_per_s(self, level: MemoryLevel) -> float:
        """Return the bandwidth in GB/s of each unit while all of them read from a level.

        It is the measured one, else that of one unit alone. A data sheet states the bandwidth of
        all units: each has an even share.
        """
        together = self.costs.together if self.units > 1 else ()
        return next((each for name, each in together if name == level.name), level.alone_gb_per_s)

    def all_gb_per_s(self, level: MemoryLevel) -> float:
        """Return the bandwidth in GB/s of all units together from a level."""
        return self.each_gb_per_s(level) * max(1, self.units)


def _level(memory: MemoryLevel) -> str:
    """Format a memory level."""
    capacity = "" if memory.capacity_bytes is None else f" {size(memory.capacity_bytes)}"
    return f"{memory.name}{capacity}"


def _text(device: Device) -> str:
    """Return a device as text."""
    return repr(device)


text_of_device = by_identity(_text, most=64)
"""All that a device is, as text that no other has: it stands in the keys of all that is made for
it, many times in one compilation.
"""
