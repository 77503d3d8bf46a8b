"""What hardware can do, as data: memory levels, units, limits. Every number names its unit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from explorer.devices.costs import Costs
from explorer.devices.python_times import PythonTimes
from explorer.devices.target import Target
from explorer.ir.by_identity import by_identity
from explorer.plain_text import counted, size

THIS_CPU = "this-cpu"  # the name of the machine that this runs on
LINE_BYTES = 64  # of a cache: x86 and most of Arm
PAGE_BYTES = 4096  # the smallest page of x86 and Arm
FAR_WAYS = 16  # of L2, in Zen 5 and Skylake's server parts: AMD 58455, 2.6; Intel 248966, 2.5


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """One memory, as one unit sees it. `shared`: all units share it; the last level has no capacity
    that limits. `ways`: lines that one set of a cache holds; `latency_ns`: until a load from it can
    be used; 0 where they are not known.

    `alone_gb_per_s` is what one unit reads while no other does, and seldom what a time is made of:
    `Device.each_gb_per_s` and `Device.all_gb_per_s` say what units read at the same time.
    """

    name: str
    capacity_bytes: int | None
    alone_gb_per_s: float
    line_bytes: int
    shared: bool = False
    ways: int = 0
    latency_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Device:
    """A machine: equal units beside each other over memory levels, nearest first.

    `lanes`: float32 elements of a vector register (or threads of a warp); `fma_per_cycle`: vector
    fused multiply-adds that a unit starts in a cycle. `task_ns`, `barrier_us`, `launch_us`: what
    the runtime adds per task, barrier and launch.

    What limits tiles on a GPU (0: no such limit, or not known): threads, registers and shared bytes
    of a block; elements of a thread's register tile; warp schedulers, threads, blocks, shared bytes
    and registers of a unit; bytes of a bank, and of the least that memory moves.
    `unit_gflops`: what kernels reach on one unit. `thread_loads`: 4-byte loads that a thread
    has under way; `pipeline_cycles`: until the result of a multiply-add can be used; `phase_ns`:
    what a block takes from one thing that its threads do to the next, 0 where that is not known.
    `unit_matrix_gflops`: what products of 16-bit floats that are summed in float32 reach on the
    matrix units of one unit, 0 where there are none.
    `capability`: tenths of what NVIDIA calls a GPU's compute capability, 0 where it has none.
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
    target: Target = Target()  # what code for a CPU is made for
    base: Device | None = field(default=None, repr=False, compare=False)  # what it was changed from

    def __str__(self) -> str:
        levels = ", ".join(_level(m) for m in self.levels)
        return f"{self.name}: {counted(self.units, self.unit_word)}, {levels}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))  # its repr, all of it, is part of keys

    @property
    def unit_word(self) -> str:
        """What one unit is called: core of a CPU, SM (streaming multiprocessor) of a GPU."""
        return "SM" if self.kind == "gpu" else "core"

    @property
    def is_this_cpu(self) -> bool:
        """Whether it is the machine that this runs on, or that with other figures: an experiment
        whose code runs here, with predictions for what is not here.
        """
        return (self.base or self).name == THIS_CPU

    @property
    def takes_cuda(self) -> bool:
        """Whether Numba makes code for it as a GPU: it has a compute capability."""
        return self.capability > 0

    @property
    def peak_gflops_per_unit(self) -> float:
        """float32 operations of one unit, a fused multiply-add counted as two, in GFLOP/s."""
        return 2.0 * self.lanes * self.fma_per_cycle * self.clock_ghz

    @property
    def reached_gflops_per_unit(self) -> float:
        """What kernels reach of one unit, in GFLOP/s: the peak where nothing is known."""
        return self.unit_gflops or self.peak_gflops_per_unit

    @property
    def sustained_gflops(self) -> float:
        """What kernels reach on all units; 0 where nothing is known."""
        return self.unit_gflops * self.units

    @property
    def matrix_gflops(self) -> float:
        """What products reach on the matrix units of all units; 0 where there are none."""
        return self.unit_matrix_gflops * self.units

    def level(self, name: str) -> MemoryLevel:
        """The memory level of that name."""
        return next(m for m in self.levels if m.name == name)

    def ways(self, level: MemoryLevel) -> int:
        """Lines that one set of a cache holds. Where it does not say: the nearest is indexed before
        translation, so that its sets are a page.
        """
        if level.ways or level.name != self.levels[0].name:
            return level.ways or FAR_WAYS
        return max(1, (level.capacity_bytes or 0) // PAGE_BYTES)

    @property
    def cached_bytes(self) -> int:
        """What the largest cache holds; what is larger than that comes from memory whenever it is
        read, and 0 where there is none.
        """
        return max((m.capacity_bytes or 0 for m in self.levels[:-1]), default=0)

    def each_gb_per_s(self, level: MemoryLevel) -> float:
        """What every unit reads from a level while all of them do, in GB/s: as it was measured,
        else as much as one alone. A data sheet tells of all units: one alone has its even share.
        """
        together = self.costs.together if self.units > 1 else ()
        return next((each for name, each in together if name == level.name), level.alone_gb_per_s)

    def all_gb_per_s(self, level: MemoryLevel) -> float:
        """What all units together read from a level, in GB/s."""
        return self.each_gb_per_s(level) * max(1, self.units)


def _level(memory: MemoryLevel) -> str:
    capacity = "" if memory.capacity_bytes is None else f" {size(memory.capacity_bytes)}"
    return f"{memory.name}{capacity}"


def _text(device: Device) -> str:
    return repr(device)


text_of_device = by_identity(_text, most=64)
"""All that a device is, as text that no other has: it stands in the keys of all that is made for
it, many times in one compilation.
"""
