"""This machine as a `Device`: measured if the user asked for that once, else by default.

A process keeps the figures that it began with; a measurement counts in later ones. So no decision
changes within a session, and the device is in the key of every decision. The default combines what
the system reports with conservative numbers for cores of its kind. `ironworks devices --measure`
replaces these by measured ones for later processes.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from explorer import cache as store
from explorer.devices.costs import Costs, PythonTimes, costs_from
from explorer.devices.cpus import fma_per_cycle
from explorer.devices.host import (
    cache_bytes,
    cache_ways,
    clock_ghz,
    is_x86,
    lanes,
    registers,
    target,
)
from explorer.devices.isa import InstructionSet
from explorer.devices.model import LINE_BYTES, Device, MemoryLevel
from explorer.process.allowance import cores

if TYPE_CHECKING:
    from explorer.codegen.cpu.object_code import MachineCode
    from explorer.measure.fit import Bandwidth
    from explorer.runtime.workers.overheads import RuntimeOverheads

Native = Callable[[int, int, int], object]

VERSION = "this-cpu-12"
RUNS = 40


# Bytes that one core reads in a cycle: of L1 and L2 in vectors, of L3 whatever the vectors are.
L1_VECTORS, L2_VECTORS, L3_BYTES = 1.25, 0.75, 12.0
DRAM_GB_PER_S, DRAM_GB_PER_S_OF_ALL = 10.0, 25.0  # of one core, and of a socket's two channels
STORES = (("L1", 0.5), ("L2", 1.0), ("L3", 1.0), ("DRAM", 0.6))
SHARED = frozenset({"L3", "DRAM"})
LAUNCH_US, BARRIER_US, TASK_NS = 2.0, 0.2, 10.0
TYPICAL_SOURCE = "kept by cores of this kind; this machine was not measured"
PIPELINE_SOURCE = "cores since Skylake and Zen 3: Fog, Instruction tables, 2025"
STARTS_SOURCE = "of the processor: Fog, Instruction tables, 2025"
DEFAULT_SOURCES = (
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
MEASURED_SOURCES = (
    ("launch_us", "an empty launch of two units, the best of many"),
    ("barrier_us", "two units that meet again and again, the best of many"),
    ("task_ns", "a kernel that does nothing, the best of many"),
    ("alone_gb_per_s", "a vector sum on one core, best of several runs"),
    ("fma_per_cycle", STARTS_SOURCE),
    ("clock_ghz", "from the measured peak of register-resident fused multiply-adds"),
    ("capacity_bytes", "the operating system, /sys/devices/system/cpu"),
    ("ways", "the operating system, /sys/devices/system/cpu"),
    ("pipeline_cycles", PIPELINE_SOURCE),
    ("python", "a copy and a look, the median of many; regions and libraries as by default"),
    ("costs", "cycles, fitted by least squares to probe kernels that were timed on one core"),
)
PRODUCT = """
def kernel(first, last, args):
    wide()
    a = argument(args, 0)
    b = argument(args, 1)
    y = argument(args, 2)
    table = argument(args, 3)
    zero = argument(args, 4)
    for task in range(first, last):
        contract(a, 0, zero, 1, 256, b, b, 0, (y,))
"""


@cache
def this_cpu() -> Device:
    """Return the device of this process: the stored measurement, else the default."""
    return remembered() or default_cpu()


@cache
def measured_cpu() -> Device:
    """Return the measured device, measuring now if needed, which takes some seconds.

    It is for tools that compare the model with the clock.
    """
    device = remembered()
    if device is None:
        device = measure()
        remember(device)
    return device


def remembered() -> Device | None:
    """Return the stored measurement of this machine, or None; nothing is compiled."""
    stored = store.get(_key())
    return None if stored is None else from_json(stored.decode())


def remember(device: Device) -> None:
    """Store a measurement for the user's later processes."""
    store.put(_key(), json.dumps(asdict(device)).encode(), "measurement")


def _key() -> str:
    """Return the key of a measurement: the processor, its cores and its caches."""
    return store.content_key(VERSION, target().text, str(cores()), json.dumps(cache_bytes()))


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
        isa=target(),
        barrier_us=BARRIER_US,
        task_ns=TASK_NS,
        sources=DEFAULT_SOURCES,
        costs=Costs(stores=STORES, together=rounded if units > 1 else ()),
        figures="default",
    )


def from_json(text: str) -> Device:
    """Return a device from the result of `json.dumps(asdict(device))`."""
    fields = json.loads(text)
    fields["levels"] = tuple(MemoryLevel(**level) for level in fields["levels"])
    fields["sources"] = tuple(tuple(pair) for pair in fields["sources"])
    fields["costs"] = costs_from(fields["costs"])
    fields["python"] = PythonTimes(**fields["python"])
    about = fields["isa"]
    fields["isa"] = InstructionSet(about["processor"], tuple(about["features"]))
    return Device(**fields)


def measure() -> Device:
    """Measure this machine.

    The result has the peak of products, the bandwidth of every level by one core and by all, the
    runtime's overheads, and the model's constants, fitted to probe kernels.
    """
    sizes, ways = cache_bytes(), cache_ways()
    dram = min(max(4 * sizes["L3"], 64 << 20), 192 << 20)
    spans = {"L1": sizes["L1"] // 2, "L2": sizes["L2"] // 2, "L3": sizes["L3"] // 4, "DRAM": dram}
    rates = _bandwidths(spans)
    levels = tuple(
        MemoryLevel(
            r.level, sizes.get(r.level), r.read, LINE_BYTES, r.level in SHARED, ways.get(r.level, 0)
        )
        for r in rates
    )
    peak = _peak_gflops()
    width = lanes()
    starts = fma_per_cycle(target(), width)
    own = overheads()
    together = tuple((r.level, r.read_together) for r in rates) if cores() > 1 else ()
    stores = tuple((r.level, round(r.store_weight, 3)) for r in rates)
    device = Device(
        name="this-cpu",
        kind="cpu",
        units=cores(),
        lanes=width,
        registers=registers(),
        fma_per_cycle=starts,
        clock_ghz=round(peak / (2 * width * starts), 3),
        levels=levels,
        launch_us=round(own.launch_us, 2),
        barrier_us=round(own.barrier_us, 3),
        task_ns=round(own.task_ns, 1),
        sources=MEASURED_SOURCES,
        costs=Costs(stores=stores, together=together),
        python=PythonTimes(round(own.copy_us, 3), round(own.look_us, 3)),
        figures="measured",
        isa=target(),
    )
    return replace(device, costs=_fitted(device))


def _bandwidths(spans: dict[str, int]) -> tuple[Bandwidth, ...]:
    """Measure the memory levels."""
    from explorer.measure.fit import COPY, READ, bandwidths  # loads the workers

    read, copy = code_of(READ), code_of(COPY)
    return bandwidths(spans, SHARED, cores(), read.address, copy.address)


def _fitted(device: Device) -> Costs:
    """Fit the costs of kernels."""
    from explorer.measure.fit import fitted, observe, probes  # loads the generator

    return fitted(device, observe(device, probes(device.lanes, device.registers)), device.costs)


def overheads() -> RuntimeOverheads:
    """Measure the runtime's overheads."""
    from explorer.runtime.workers.overheads import overheads as measured  # loads the workers

    return measured()


def code_of(body: str, *header: str) -> MachineCode:
    """Compile a kernel's text to machine code."""
    from explorer.codegen.cpu.object_code import compile_cfunc
    from explorer.codegen.cpu.print import DECORATOR, HEADER  # slow to load, and seldom needed

    source = "\n".join([*HEADER, *header, "", DECORATOR + body])
    return compile_cfunc(source, target())


def native_function(body: str, *header: str) -> Native:
    """Compile a kernel's text to a function of the first task, the end, and an address."""
    signature = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    code = code_of(body, *header)
    function: Any = signature(code.address)
    function.code = code  # for as long as the function lives
    return function


def _aligned(block: np.ndarray) -> int:
    """Return the first aligned address in an array."""
    return (int(block.ctypes.data) + 63) // 64 * 64


def _best_seconds(function: Native, args: np.ndarray, repeats: int, runs: int) -> float:
    """Return the best of many short runs: some are undisturbed."""
    function(0, 1, args.ctypes.data)
    times = []
    for _ in range(runs):
        begin = perf_counter()
        function(0, repeats, args.ctypes.data)
        times.append((perf_counter() - begin) / repeats)
    return min(times)


def _peak_gflops() -> float:
    """Measure products of a register tile with both operands in L1."""
    width = lanes()
    rows, vectors = (14, 2) if width == 16 or not is_x86() else (6, 2)
    header = f"contract = micro_kernel({rows}, {vectors}, {width}, 1, 0, 0)"
    a, b, y = (np.zeros(4096, np.float32) for _ in range(3))
    table, zero = np.zeros(32, np.int64), np.zeros(1, np.int64)
    addresses = [_aligned(x) for x in (a, b, y)]
    args = np.array([*addresses, table.ctypes.data, zero.ctypes.data], np.int64)
    seconds = _best_seconds(native_function(PRODUCT, header), args, 400, RUNS)
    return 2 * rows * vectors * width * 256 / seconds / 1e9
