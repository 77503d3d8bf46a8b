"""Description of the machine that a time was measured on, without host name, user or path."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from explorer.devices.host import cache_bytes, cpu_name, lanes
from explorer.printed import Printed
from explorer.process.allowance import cores

PACKAGES = ("ironworks", "numpy", "numba", "llvmlite", "onnx", "onnxruntime", "torch")


@dataclass(frozen=True, slots=True, repr=False)
class Machine(Printed):
    """CPU, usable cores, float32 lanes, cache sizes, and versions that matter."""

    cpu: str
    cores: int
    lanes: int
    caches: tuple[tuple[str, int], ...]
    system: str
    versions: tuple[tuple[str, str], ...]

    @property
    def line(self) -> str:
        """The description in one line."""
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        caches = ", ".join(f"{name} {_size(size)}" for name, size in self.caches)
        return f"{self.cpu}, {cores}, {caches}"

    def __str__(self) -> str:
        """Return the description with system and versions."""
        versions = ", ".join(f"{name} {number}" for name, number in self.versions)
        return f"{self.line}; {self.lanes} float32 lanes; {self.system}; {versions}"


@cache
def machine() -> Machine:
    """Return the description of this machine."""
    return Machine(
        cpu_name(),
        cores(),
        lanes(),
        tuple(cache_bytes().items()),
        f"{platform.system()} {platform.machine()}",
        (("python", ".".join(map(str, sys.version_info[:3]))), *_versions()),
    )


def _versions() -> tuple[tuple[str, str], ...]:
    """Return the versions of installed packages that matter."""
    versions = []
    for name in PACKAGES:
        try:
            versions.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return tuple(versions)


def _size(count: int) -> str:
    """Format a number of bytes."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} B"
