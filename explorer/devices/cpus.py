"""CPUs: multiply-adds a cycle of each processor, and this machine with other vectors.

The latter answer questions such as "what would AVX2 print?".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from explorer.devices.isa import InstructionSet
from explorer.devices.model import Device


@dataclass(frozen=True, slots=True)
class Vectors:
    """float32 lanes of a vector register, number of registers, and LLVM's processor.

    The processors are the levels of the x86-64 psABI, section 3.1.1.
    """

    lanes: int
    registers: int
    isa: InstructionSet


SSE = ("+sse2", "+sse3", "+sse4.1", "+sse4.2", "+ssse3", "+popcnt")
AVX2 = (*SSE, "+avx", "+avx2", "+bmi", "+bmi2", "+f16c", "+fma", "+lzcnt")
AVX512 = (*AVX2, "+avx512bw", "+avx512cd", "+avx512dq", "+avx512f", "+avx512vl")
CPUS: Mapping[str, Vectors] = {
    "cpu-sse": Vectors(4, 16, InstructionSet("x86-64-v2", SSE)),
    "cpu-avx2": Vectors(8, 16, InstructionSet("x86-64-v3", AVX2)),
    "cpu-avx512": Vectors(16, 32, InstructionSet("x86-64-v4", AVX512)),
}


# Vector multiply-adds that a core starts in a cycle, by LLVM's name of the processor and float32
# elements of a vector: Fog, Instruction tables, 2025; Arm's software optimization guides.
USUAL_STARTS = {4: 2.0, 8: 2.0, 16: 1.0}  # of 16: rather too careful than too good
STARTS: Mapping[tuple[str, int], float] = {
    ("znver1", 8): 1.0,  # halves of 128 bits; Zen 4 has halves of 256
    **{(f"znver{n}", 16): 2.0 for n in (5, 6)},
    **{
        (name, 16): 2.0
        for name in (
            "skylake-avx512", "cascadelake", "cooperlake", "icelake-server", "sapphirerapids",
            "emeraldrapids", "graniterapids", "graniterapids-d", "diamondrapids", "knl", "knm",
        )
    },
    **{(name, 8): 1.0 for name in ("gracemont", "sierraforest", "grandridge", "bdver2", "bdver4")},
    **{(name, 4): 4.0 for name in ("neoverse-v1", "neoverse-v2", "neoverse-v3", "cortex-x4")},
    **{(f"apple-m{n}", 4): 4.0 for n in range(1, 6)},
}  # fmt: skip


def fma_per_cycle(target: InstructionSet, lanes: int) -> float:
    """Return how many vector multiply-adds of so many float32 lanes a core starts in a cycle.

    Processors that are not listed get the usual number.
    """
    return STARTS.get((target.processor, lanes), USUAL_STARTS[lanes])


def like(machine: Device, name: str) -> Device:
    """Return a machine with the vectors of one of `CPUS`; caches and clock stay."""
    vectors = CPUS[name]
    return replace(
        machine,
        name=name,
        lanes=vectors.lanes,
        registers=vectors.registers,
        fma_per_cycle=fma_per_cycle(machine.isa, vectors.lanes),
        isa=vectors.isa,
    )


def runs_on(device: Device, machine: Device) -> bool:
    """Return True if code for a device runs on a machine.

    The device must be a CPU with no wider vectors and no feature that the machine lacks.
    """
    needed = {f for f in device.isa.features if f.startswith("+")}
    return (
        device.kind == "cpu" and device.lanes <= machine.lanes and needed <= {*machine.isa.features}
    )
