"""What this process may use of the machine: cores and memory, the least that anybody allows.

The system's affinity, the quota of its control groups (versions 1 and 2, also seen from within a
container), and what JupyterHub and Binder tell a server: `CPU_LIMIT` in cores, `MEM_LIMIT` in
bytes. How many cores the machine reports does not matter: more threads than a quota lets run stand
still together.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from math import isfinite
from pathlib import Path

ROOT = Path("/")  # of the files that the system tells limits in
CPU_LIMIT, MEM_LIMIT = "CPU_LIMIT", "MEM_LIMIT"
NO_LIMIT = 1 << 60  # bytes: version 1 writes a limit that there is not as a number beyond
LOOKS, BETWEEN_SECONDS = 3, 0.001  # at what runs now: what runs for a moment is not in all; chosen


def cores() -> int:
    """How many threads of this process can run at once; at least one. Of a core that is allowed in
    part nothing counts: a thread on it would make the others wait."""
    allowed = (reported_cores(), *_of_quotas(), *_of_variable(CPU_LIMIT))
    return max(1, int(min(allowed)))


def reported_cores() -> int:
    """How many cores the system would let this process run on, whatever its quota is."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def idle_cores() -> int:
    """How many more threads could run at once now than those that do, of this process or any other:
    all but the caller's core where the system does not tell what runs.
    """
    looks = [n for look in range(LOOKS) for n in _running(look)]
    unused = (os.cpu_count() or 1) - min(looks) if looks else NO_LIMIT
    return max(0, min(cores() - 1, unused))


def memory_bytes() -> int:
    """The most that this process may ever hold."""
    limits = [limit for limit, _ in _memory_groups()]
    limits += [int(n) for n in _of_variable(MEM_LIMIT)]
    limits += _of_process()
    return min((*limits, *_of_meminfo("MemTotal")), default=NO_LIMIT)


def free_bytes() -> int:
    """The memory that can still be had: of the machine, of its container, and of its server."""
    free = [limit - used for limit, used in _memory_groups()]
    free += [int(n) - _resident_bytes() for n in _of_variable(MEM_LIMIT)]
    return max(0, min((*free, *_of_meminfo("MemAvailable")), default=NO_LIMIT))


def _running(look: int) -> Iterator[int]:
    """How many threads of the machine run or want to, this one among them; a moment after the look
    before.
    """
    time.sleep(BETWEEN_SECONDS if look else 0)
    with suppress(OSError, ValueError, IndexError):
        yield int((ROOT / "proc/loadavg").read_text("ascii").split()[3].partition("/")[0])


def _of_process() -> Iterator[int]:
    """The process's own limit of addresses (`ulimit -v`), where the system has such limits."""
    with suppress(ImportError, OSError):
        from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit

        limit = getrlimit(RLIMIT_AS)[0]
        if limit != RLIM_INFINITY:
            yield limit


def _of_variable(name: str) -> Iterator[float]:
    """The number that a variable of the environment holds, if it is one above zero."""
    with suppress(ValueError):
        found = float(os.environ.get(name, ""))
        if isfinite(found) and found > 0:
            yield found


def _of_quotas() -> Iterator[float]:
    for group in _groups(""):
        with suppress(OSError, ValueError):
            quota, period = (group / "cpu.max").read_text("ascii").split()
            yield _share(quota, period)
    for group in _groups("cpu"):
        with suppress(OSError, ValueError):
            quota = (group / "cpu.cfs_quota_us").read_text("ascii")
            yield _share(quota, (group / "cpu.cfs_period_us").read_text("ascii"))


def _share(quota: str, period: str) -> float:
    """Cores of a quota; ValueError where there is none ("max", -1)."""
    if int(quota) <= 0 or int(period) <= 0:
        raise ValueError
    return int(quota) / int(period)


def _memory_groups() -> Iterator[tuple[int, int]]:
    """Limit and use of each group that has a limit, in bytes."""
    names = (("", "memory.max", "memory.current"),
             ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"))  # fmt: skip
    for controller, limit, used in names:
        for group in _groups(controller):
            with suppress(OSError, ValueError):
                most = int((group / limit).read_text("ascii"))
                if most < NO_LIMIT:
                    yield most, int((group / used).read_text("ascii"))


def _groups(controller: str) -> Iterator[Path]:
    """The folders of this process's group and of those around it, of one controller of version 1,
    or ("") of version 2. Within a container its own group may be the mount itself.
    """
    with suppress(OSError, UnicodeDecodeError):
        for line in (ROOT / "proc/self/cgroup").read_text("utf-8").splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if controller in controllers.split(","):
                yield from _around(controllers, path)


def _around(controllers: str, path: str) -> Iterator[Path]:
    mounted = ROOT / "sys/fs/cgroup"
    steps = [p for p in path.split("/") if p not in ("", "..")]
    names = (controllers, *controllers.split(",")) if controllers else (".", "unified")
    for name in dict.fromkeys(names):
        for length in range(len(steps), -1, -1):
            yield mounted.joinpath(name, *steps[:length])


def _of_meminfo(name: str) -> Iterator[int]:
    with suppress(OSError, ValueError, IndexError):
        for line in (ROOT / "proc/meminfo").read_text("ascii").splitlines():
            if line.startswith(f"{name}:"):
                yield int(line.split()[1]) * 1024


def _resident_bytes() -> int:
    with suppress(OSError, ValueError, IndexError):
        return int((ROOT / "proc/self/statm").read_text("ascii").split()[1]) * 4096
    return 0
