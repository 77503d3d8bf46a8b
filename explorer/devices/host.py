"""Properties of this processor that the system reports without running anything.

They are its name, vectors, features, caches and clock. No other module asks which machine this is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from explorer.devices.isa import InstructionSet

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")  # in kHz
CPUINFO = Path("/proc/cpuinfo")
DEFAULT_BYTES = {1: 32 << 10, 2: 512 << 10, 3: 8 << 20}
# Of a last-level cache, more than any processor has: 96 MiB for 8 cores (AMD's data sheets, Zen 4
# with 3D V-Cache). A virtual machine is often told all of its host's, which others use as well.
MOST_L3_BYTES_PER_CORE = 16 << 20
DEFAULT_GHZ = 3.0
PLAUSIBLE_GHZ = (0.5, 8.0)


@cache
def target() -> InstructionSet:
    """Return the processor with all features that code may use here."""
    features = str(llvm.get_host_cpu_features().flatten()).split(",")
    return InstructionSet(str(llvm.get_host_cpu_name()), tuple(sorted(filter(None, features))))


def lanes() -> int:
    """Return the float32 lanes of a vector register."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 16
    return 8 if features.get("avx2") or features.get("avx") else 4


def registers() -> int:
    """Return the number of vector registers that code may use."""
    return 32 if lanes() == 16 or not is_x86() else 16


def is_x86() -> bool:
    """Return True on an x86 processor."""
    return "x86" in llvm.get_default_triple()


def cache_bytes() -> dict[str, int]:
    """Return the size of each data cache, as the kernel reports it, or a common one.

    The last level is limited to what the cores that share it can have.
    """
    sizes = {f"L{n}": size for n, size in DEFAULT_BYTES.items()}
    for level, entry in _data_caches():
        text = _read_text(entry / "size")
        if text[-1:] in ("K", "M") and text[:-1].isdigit():
            sizes[level] = int(text[:-1]) << (10 if text[-1] == "K" else 20)
            if level == "L3":
                most = MOST_L3_BYTES_PER_CORE * _sharing(entry)
                sizes[level] = min(sizes[level], max(most, sizes["L2"]))
    return sizes


def _sharing(entry: Path) -> int:
    """Return how many of this machine's cores share a cache; the kernel's list is such as 0-3,8."""
    spans = [part.partition("-") for part in _read_text(entry / "shared_cpu_list").split(",")]
    ranges = [(a, b or a) for a, _, b in spans if a.isdigit() and (b or a).isdigit()]
    return max(1, sum(int(b) - int(a) + 1 for a, b in ranges))


def cache_ways() -> dict[str, int]:
    """Return the associativity of each data cache that the kernel reports."""
    texts = {level: _read_text(entry / "ways_of_associativity") for level, entry in _data_caches()}
    return {level: int(text) for level, text in texts.items() if text.isdigit() and int(text)}


def _data_caches() -> Iterator[tuple[str, Path]]:
    """Yield name and folder of each data cache."""
    for entry in sorted(CACHES.glob("index*")) if CACHES.is_dir() else ():
        if _read_text(entry / "type") in ("Data", "Unified"):
            yield f"L{_read_text(entry / 'level')}", entry


def _read_text(path: Path) -> str:
    """Return the text of a file of the system, or ""."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def clock_ghz() -> float:
    """Return the clock in GHz.

    It is the highest clock that the system reports, else the one in the processor's name, else the
    constant one of a virtual machine, else a common one. The momentary clock is never used: it
    would make two plans of one.
    """
    for ghz in (_highest_ghz(), _ghz_in_name(), _constant_ghz()):
        if PLAUSIBLE_GHZ[0] <= ghz <= PLAUSIBLE_GHZ[1]:
            return round(ghz, 3)
    return DEFAULT_GHZ


def _highest_ghz() -> float:
    """Return the highest clock that the system reports, or 0."""
    try:
        return int(FREQUENCY.read_text("ascii")) / 1e6
    except (OSError, ValueError):
        return 0.0


def _ghz_in_name() -> float:
    """Return the clock in the processor's name, or 0."""
    match = re.search(r"@ (\d+\.\d+)GHz", cpu_name())
    return float(match[1]) if match else 0.0


def _constant_ghz() -> float:
    """Return the nominal clock (that of the time stamp counter) of a virtual machine, or 0."""
    flags = _cpuinfo("flags").split()
    if "hypervisor" not in flags or "aperfmperf" in flags:  # the latter tells the clock of now
        return 0.0
    try:
        return float(_cpuinfo("cpu MHz")) / 1e3
    except ValueError:
        return 0.0


def cpu_name() -> str:
    """Return the processor's own name, or LLVM's name for it."""
    return _cpuinfo("model name") or str(llvm.get_host_cpu_name())


def _cpuinfo(name: str) -> str:
    """Return a field of the first core in /proc/cpuinfo, or ""."""
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return ""
    fields = (line.partition(":") for line in lines)
    return next((" ".join(text.split()) for key, _, text in fields if key.strip() == name), "")
