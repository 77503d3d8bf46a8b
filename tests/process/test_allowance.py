"""What a process may use: the least of affinity, quotas, and what its server was told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from explorer.codegen.cpu.compile_processes import helpers_for
from explorer.process import allowance
from explorer.runtime.workers.workers import Team

GIB = 1 << 30


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of 16 cores and 64 GiB, without limits."""
    monkeypatch.setattr(allowance, "ROOT", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    for name in (allowance.CPU_LIMIT, allowance.MEM_LIMIT):
        monkeypatch.delenv(name, raising=False)
    write(tmp_path, "proc/meminfo", f"MemTotal: {64 << 20} kB\nMemAvailable: {48 << 20} kB\n")
    write(tmp_path, "proc/self/statm", f"999 {GIB // 4096} 1\n")
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_limits_all_is_allowed(system: Path) -> None:
    assert allowance.cores() == 16
    assert allowance.memory_bytes() == 64 * GIB and allowance.free_bytes() == 48 * GIB


def test_a_system_that_tells_nothing_has_no_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allowance, "ROOT", tmp_path / "none")
    monkeypatch.delenv(allowance.MEM_LIMIT, raising=False)
    assert allowance.cores() >= 1 and allowance.free_bytes() == allowance.NO_LIMIT


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("100000 100000", 1), ("max 100000", 16), ("250000 100000", 2), ("50000 100000", 1),
     ("nonsense", 16), ("0 0", 16), ("", 16)],
)  # fmt: skip
def test_a_quota_of_version_2_counts_in_whole_cores(system: Path, quota: str, cores: int) -> None:
    write(system, "proc/self/cgroup", "0::/user/me\n")
    write(system, "sys/fs/cgroup/user/me/cpu.max", quota)
    assert allowance.cores() == cores


def test_a_quota_of_a_group_around_counts(system: Path) -> None:
    write(system, "proc/self/cgroup", "0::/pod/container\n")
    write(system, "sys/fs/cgroup/pod/container/cpu.max", "max 100000\n")
    write(system, "sys/fs/cgroup/pod/cpu.max", "300000 100000\n")
    assert allowance.cores() == 3


@pytest.mark.parametrize("folder", ["cpu,cpuacct", "cpu"])
def test_a_quota_of_version_1_counts(system: Path, folder: str) -> None:
    write(system, "proc/self/cgroup", "4:memory:/d/1\n2:cpu,cpuacct:/d/1\n0::/\n")
    write(system, f"sys/fs/cgroup/{folder}/d/1/cpu.cfs_quota_us", "200000\n")
    write(system, f"sys/fs/cgroup/{folder}/d/1/cpu.cfs_period_us", "100000\n")
    assert allowance.cores() == 2


def test_a_container_that_sees_only_itself_has_its_limits_at_the_mount(system: Path) -> None:
    write(system, "proc/self/cgroup", "4:memory:/docker/abc\n2:cpu:/docker/abc\n")
    write(system, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n")
    write(system, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    write(system, "sys/fs/cgroup/memory/memory.limit_in_bytes", f"{2 * GIB}\n")
    write(system, "sys/fs/cgroup/memory/memory.usage_in_bytes", f"{GIB}\n")
    assert allowance.cores() == 1
    assert allowance.memory_bytes() == 2 * GIB and allowance.free_bytes() == GIB


def test_no_path_of_a_group_leads_out_of_the_mount(system: Path) -> None:
    write(system, "proc/self/cgroup", "0::/../../evil\n")
    write(system, "evil/cpu.max", "100000 100000")
    assert allowance.cores() == 16


@pytest.mark.parametrize(
    ("limit", "cores"),
    [("1", 1), ("1.0", 1), ("0.5", 1), ("3.7", 3), ("64", 16), ("", 16), ("none", 16), ("nan", 16),
     ("inf", 16), ("-1", 16), ("0", 16)],
)  # fmt: skip
def test_the_cores_that_a_server_was_given_count(
    system: Path, monkeypatch: pytest.MonkeyPatch, limit: str, cores: int
) -> None:
    monkeypatch.setenv(allowance.CPU_LIMIT, limit)
    assert allowance.cores() == cores


def test_memory_is_the_least_of_machine_group_and_server(
    system: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(system, "proc/self/cgroup", "0::/a\n")
    write(system, "sys/fs/cgroup/a/memory.max", f"{4 * GIB}\n")
    write(system, "sys/fs/cgroup/a/memory.current", f"{3 * GIB}\n")
    assert allowance.memory_bytes() == 4 * GIB and allowance.free_bytes() == GIB
    monkeypatch.setenv(allowance.MEM_LIMIT, str(GIB + 100))
    assert allowance.memory_bytes() == GIB + 100 and allowance.free_bytes() == 100
    write(system, "sys/fs/cgroup/a/memory.max", "max\n")
    monkeypatch.delenv(allowance.MEM_LIMIT)
    assert allowance.memory_bytes() == 64 * GIB and allowance.free_bytes() == 48 * GIB


def test_one_allowed_core_of_many_has_no_worker_and_no_helper(
    system: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(allowance.CPU_LIMIT, "1")
    assert helpers_for(1000) == 0
    own = Team()
    own._worker_count(16, 16)
    assert own.workers == 0
    monkeypatch.setenv(allowance.CPU_LIMIT, "4")
    assert helpers_for(1000) == 3


@pytest.mark.parametrize(
    ("looks", "idle"),
    [("1", 15), ("2", 14), ("9 1 9", 15), ("5 9 5", 11), ("40", 0), ("nonsense", 15), ("", 15)],
)
def test_cores_that_others_keep_busy_are_not_idle(
    system: Path, monkeypatch: pytest.MonkeyPatch, looks: str, idle: int
) -> None:
    """What runs in one of several looks only does not count."""
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    left = [n for n in looks.split() for _ in range(3 // len(looks.split()))]

    def later(seconds: float) -> None:
        write(system, "proc/loadavg", f"0.50 0.40 0.30 {left.pop(0) if left else ''}/164 30528\n")

    monkeypatch.setattr(allowance.time, "sleep", later)
    assert allowance.idle_cores() == idle
    monkeypatch.setenv(allowance.CPU_LIMIT, "1")
    assert allowance.idle_cores() == 0


def test_a_process_has_no_more_memory_than_its_own_limit() -> None:
    limit = 3 << 30
    code = (
        "import resource; from explorer.process.allowance import memory_bytes; "
        f"resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit})); print(memory_bytes())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(found.stdout) <= limit
