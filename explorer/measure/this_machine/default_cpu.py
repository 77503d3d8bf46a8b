"""Default device of a machine that was not measured.

It combines what the system reports with conservative numbers for cores of its kind. `ironworks
devices --measure` replaces these by measured ones for later processes.
"""

from __future__ import annotations

from explorer.allowance import cores
from explorer.devices.costs import Costs
from explorer.devices.cpus import fma_per_cycle
from explorer.devices.host import cache_bytes, cache_ways, clock_ghz, lanes, registers, target
from explorer.devices.model import LINE_BYTES, Device, MemoryLevel

# Bytes that one core reads in a cycle: of L1 and L2 in vectors, of L3 whatever the vectors are.
L1_VECTORS, L2_VECTORS, L3_BYTES = 1.25, 0.75, 12.0
DRAM_GB_PER_S, DRAM_GB_PER_S_OF_ALL = 10.0, 25.0  # of one core, and of a socket's two channels
STORES = (("L1", 0.5), ("L2", 1.0), ("L3", 1.0), ("DRAM", 0.6))
SHARED = frozenset({"L3", "DRAM"})
LAUNCH_US, BARRIER_US, TASK_NS = 2.0, 0.2, 10.0
TYPICAL_SOURCE = "kept by cores of this kind; this machine was not measured"
PIPELINE_SOURCE = "cores since Skylake and Zen 3: Fog, Instruction tables, 2025"
STARTS_SOURCE = "of the processor: Fog, Instruction tables, 2025"
SOURCES = (
    ("launch_us", TYPICAL_SOURCE),
    ("barrier_us", TYPICAL_SOURCE),
    ("task_ns", TYPICAL_SOURCE),
    ("alone_gb_per_s", TYPICAL_SOURCE),
    ("fma_per_cycle", STARTS_SOURCE),
    ("clock_ghz", "the operating system or the processor's name, else 3 GHz"),
    ("capacity_bytes", "the operating system, /sys/devices/system/cpu"),
    ("ways", "the operating system, /sys/devices/system/cpu"),
    ("pipeline_cycles", PIPELINE_SOURCE),
    ("costs", f"cycles {TYPICAL_SOURCE}"),
    ("python", TYPICAL_SOURCE),
)


def default_cpu() -> Device:
    """Return the device of this process as far as it is known without running anything."""
    clock, sizes, ways, units = clock_ghz(), cache_bytes(), cache_ways(), cores()
    vector = 4 * lanes()
    alone = {
        "L1": L1_VECTORS * vector * clock,
        "L2": L2_VECTORS * vector * clock,
        "L3": L3_BYTES * clock,
        "DRAM": DRAM_GB_PER_S,
    }
    together = {**alone, "DRAM": min(DRAM_GB_PER_S, DRAM_GB_PER_S_OF_ALL / units)}
    rounded = tuple((name, round(rate, 1)) for name, rate in together.items())
    return Device(
        name="this-cpu",
        kind="cpu",
        units=units,
        lanes=lanes(),
        registers=registers(),
        fma_per_cycle=fma_per_cycle(target(), lanes()),
        clock_ghz=clock,
        levels=tuple(
            MemoryLevel(
                name,
                sizes.get(name),
                round(rate, 1),
                LINE_BYTES,
                shared=name in SHARED,
                ways=ways.get(name, 0),
            )
            for name, rate in alone.items()
        ),
        launch_us=LAUNCH_US,
        target=target(),
        barrier_us=BARRIER_US,
        task_ns=TASK_NS,
        sources=SOURCES,
        costs=Costs(stores=STORES, together=rounded if units > 1 else ()),
        figures="default",
    )
