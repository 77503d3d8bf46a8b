"""Cores and memory that this process may use: the smallest of all limits.

Limits are the system's affinity, the quota of the control groups (versions 1 and 2, also seen from
within a container), and the variables that JupyterHub and Binder set: `CPU_LIMIT` in cores,
`MEM_LIMIT` in bytes. The number of cores of the machine does not matter: threads beyond a quota are
stopped together.
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
    """Return how many threads of this process can run at once; at least one.

    A core that is allowed in part does not count: a thread on it would make the others wait.
    """
    allowed = (reported_cores(), *_of_quotas(), *_of_variable(CPU_LIMIT))
    return max(1, int(min(allowed)))


def reported_cores() -> int:
    """Return how many cores the system lets this process run on, quota aside."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def idle_cores() -> int:
    """Return how many more threads could run now than those that do, of any process.

    Where the system does not report running threads, that is every core but the caller's.
    """
    looks = [n for look in range(LOOKS) for n in _running(look)]
    unused = (os.cpu_count() or 1) - min(looks) if looks else NO_LIMIT
    return max(0, min(cores() - 1, unused))


def memory_bytes() -> int:
    """Return the most bytes that this process may ever hold."""
    limits = [limit for limit, _ in _memory_groups()]
    limits += [int(n) for n in _of_variable(MEM_LIMIT)]
    limits += _of_process()
    return min((*limits, *_of_meminfo("MemTotal")), default=NO_LIMIT)


def free_bytes() -> int:
    """Return the bytes that are still free in the machine, its container and its server."""
    free = [limit - used for limit, used in _memory_groups()]
    free += [int(n) - _resident_bytes() for n in _of_variable(MEM_LIMIT)]
    return max(0, min((*free, *_of_meminfo("MemAvailable")), default=NO_LIMIT))


def _running(look: int) -> Iterator[int]:
    """Yield how many threads of the machine are runnable, this one included.

    Samples after the first wait a moment.
    """
    time.sleep(BETWEEN_SECONDS if look else 0)
    with suppress(OSError, ValueError, IndexError):
        yield int((ROOT / "proc/loadavg").read_text("ascii").split()[3].partition("/")[0])


def _of_process() -> Iterator[int]:
    """Yield the process's own address-space limit (`ulimit -v`) if the system has one."""
    with suppress(ImportError, OSError):
        from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit

        limit = getrlimit(RLIMIT_AS)[0]
        if limit != RLIM_INFINITY:
            yield limit


def _of_variable(name: str) -> Iterator[float]:
    """Yield the number in an environment variable if it is above zero."""
    with suppress(ValueError):
        number = float(os.environ.get(name, ""))
        if isfinite(number) and number > 0:
            yield number


def _of_quotas() -> Iterator[float]:
    """Yield the cores that the CPU quotas of the control groups allow."""
    for group in _groups(""):
        with suppress(OSError, ValueError):
            quota, period = (group / "cpu.max").read_text("ascii").split()
            yield _share(quota, period)
    for group in _groups("cpu"):
        with suppress(OSError, ValueError):
            quota = (group / "cpu.cfs_quota_us").read_text("ascii")
            yield _share(quota, (group / "cpu.cfs_period_us").read_text("ascii"))


def _share(quota: str, period: str) -> float:
    """Return the cores of a quota; raise ValueError if there is none ("max", -1)."""
    if int(quota) <= 0 or int(period) <= 0:
        raise ValueError
    return int(quota) / int(period)


def _memory_groups() -> Iterator[tuple[int, int]]:
    """Yield limit and use, in bytes, of each control group that has a memory limit."""
    names = (("", "memory.max", "memory.current"),
             ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"))  # fmt: skip
    for controller, limit, used in names:
        for group in _groups(controller):
            with suppress(OSError, ValueError):
                most = int((group / limit).read_text("ascii"))
                if most < NO_LIMIT:
                    yield most, int((group / used).read_text("ascii"))


def _groups(controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control group and of its parents.

    `controller` is one of version 1, or "" for version 2. Within a container the group may be the
    mount itself.
    """
    with suppress(OSError, UnicodeDecodeError):
        for line in (ROOT / "proc/self/cgroup").read_text("utf-8").splitlines():
            _, _, fields = line.partition(":")
            controllers, _, path = fields.partition(":")
            if controller in controllers.split(","):
                yield from _around(controllers, path)


def _around(controllers: str, path: str) -> Iterator[Path]:
    """Yield the folders of a group and its parents under each mount of these controllers."""
    mounted = ROOT / "sys/fs/cgroup"
    steps = [p for p in path.split("/") if p not in ("", "..")]
    names = (controllers, *controllers.split(",")) if controllers else (".", "unified")
    for name in dict.fromkeys(names):
        for length in range(len(steps), -1, -1):
            yield mounted.joinpath(name, *steps[:length])


def _of_meminfo(name: str) -> Iterator[int]:
    """Yield the bytes that a line of /proc/meminfo states."""
    with suppress(OSError, ValueError, IndexError):
        for line in (ROOT / "proc/meminfo").read_text("ascii").splitlines():
            if line.startswith(f"{name}:"):
                yield int(line.split()[1]) * 1024


def _resident_bytes() -> int:
    """Return the resident set size of this process, or 0 if it is unknown."""
    with suppress(OSError, ValueError, IndexError):
        return int((ROOT / "proc/self/statm").read_text("ascii").split()[1]) * 4096
    return 0
