"""What the system says of the processor that is here without running anything: its name, vectors
and features, caches, clock. Nothing else asks what machine this is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from explorer.devices.target import Target

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
def target() -> Target:
    """The processor, with all features that code may use here."""
    features = str(llvm.get_host_cpu_features().flatten()).split(",")
    return Target(str(llvm.get_host_cpu_name()), tuple(sorted(filter(None, features))))


def lanes() -> int:
    """float32 elements of a vector register."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 16
    return 8 if features.get("avx2") or features.get("avx") else 4


def registers() -> int:
    """Vector registers that code may use."""
    return 32 if lanes() == 16 or not is_x86() else 16


def is_x86() -> bool:
    """Whether this is an x86 processor."""
    return "x86" in llvm.get_default_triple()


def cache_bytes() -> dict[str, int]:
    """The size of each data cache, as the kernel tells it, else a common one; of the last level no
    more than the cores that share it can have.
    """
    found = {f"L{n}": size for n, size in DEFAULT_BYTES.items()}
    for level, entry in _data_caches():
        text = _told(entry / "size")
        if text[-1:] in ("K", "M") and text[:-1].isdigit():
            found[level] = int(text[:-1]) << (10 if text[-1] == "K" else 20)
            if level == "L3":
                most = MOST_L3_BYTES_PER_CORE * _sharing(entry)
                found[level] = min(found[level], max(most, found["L2"]))
    return found


def _sharing(entry: Path) -> int:
    """How many of our cores share a cache: the kernel's list is such as 0-3,8."""
    spans = [part.partition("-") for part in _told(entry / "shared_cpu_list").split(",")]
    known = [(a, b or a) for a, _, b in spans if a.isdigit() and (b or a).isdigit()]
    return max(1, sum(int(b) - int(a) + 1 for a, b in known))


def cache_ways() -> dict[str, int]:
    """How many lines a set of each data cache holds, where the kernel tells it."""
    told = {level: _told(entry / "ways_of_associativity") for level, entry in _data_caches()}
    return {level: int(text) for level, text in told.items() if text.isdigit() and int(text)}


def _data_caches() -> Iterator[tuple[str, Path]]:
    for entry in sorted(CACHES.glob("index*")) if CACHES.is_dir() else ():
        if _told(entry / "type") in ("Data", "Unified"):
            yield f"L{_told(entry / 'level')}", entry


def _told(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def clock_ghz() -> float:
    """The highest clock that the system tells, else the one in the processor's name, else of a
    virtual machine the constant one, else a common one; never that of the moment, which would make
    two plans of one.
    """
    for found in (_highest_ghz(), _ghz_in_name(), _constant_ghz()):
        if PLAUSIBLE_GHZ[0] <= found <= PLAUSIBLE_GHZ[1]:
            return round(found, 3)
    return DEFAULT_GHZ


def _highest_ghz() -> float:
    try:
        return int(FREQUENCY.read_text("ascii")) / 1e6
    except (OSError, ValueError):
        return 0.0


def _ghz_in_name() -> float:
    found = re.search(r"@ (\d+\.\d+)GHz", cpu_name())
    return float(found[1]) if found else 0.0


def _constant_ghz() -> float:
    """The nominal clock, that of the time stamp counter, where a virtual machine tells no other."""
    flags = _about("flags").split()
    if "hypervisor" not in flags or "aperfmperf" in flags:  # the latter tells the clock of now
        return 0.0
    try:
        return float(_about("cpu MHz")) / 1e3
    except ValueError:
        return 0.0


def cpu_name() -> str:
    """The processor as it calls itself, else as LLVM knows it."""
    return _about("model name") or str(llvm.get_host_cpu_name())


def _about(name: str) -> str:
    """What the system says of the first core under this name, "" where it says nothing."""
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return ""
    found = (line.partition(":") for line in lines)
    return next((" ".join(text.split()) for key, _, text in found if key.strip() == name), "")
