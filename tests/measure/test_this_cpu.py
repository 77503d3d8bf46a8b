"""This machine as a device: by default, measured, remembered, and within what any machine is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from explorer.devices import host
from explorer.devices.cpus import like
from explorer.devices.isa import InstructionSet
from explorer.devices.model import Device, MemoryLevel
from explorer.measure import this_cpu
from explorer.process.allowance import cores
from explorer.process.counters import counters

SMALL = Device(
    name="this-cpu",
    kind="cpu",
    units=2,
    lanes=8,
    registers=16,
    fma_per_cycle=2.0,
    clock_ghz=3.0,
    levels=(MemoryLevel("L1", 32768, 300.0, 64), MemoryLevel("DRAM", None, 20.0, 64, True)),
    sources=(("clock_ghz", "made up"),),
)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No test knows what another one asked for."""
    asked = (this_cpu.this_cpu, this_cpu.measured_cpu)
    for function in asked:
        function.cache_clear()
    yield
    for function in asked:
        function.cache_clear()


def test_a_measurement_is_read_back_as_it_was() -> None:
    assert this_cpu.from_json(json.dumps(asdict(SMALL))) == SMALL


def test_a_remembered_machine_is_not_measured_again(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    this_cpu.remember(SMALL)
    monkeypatch.setattr(this_cpu, "measure", lambda: pytest.fail("measured again"))
    assert this_cpu.this_cpu() == this_cpu.measured_cpu() == SMALL


def test_a_machine_that_was_not_measured_is_known_without_a_kernel_or_a_file(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(this_cpu, "measure", lambda: pytest.fail("measured unasked"))
    with counters.delta() as did:
        found = this_cpu.this_cpu()
    assert did.kernel_compiles == 0 and not own_cache.exists()
    assert found.figures == "default" and found.units == cores()
    assert "not measured" in dict(found.sources)["costs"]
    sizes = host.cache_bytes()
    assert {m.name: m.capacity_bytes for m in found.levels if m.capacity_bytes} == sizes
    speeds = [m.alone_gb_per_s for m in found.levels]
    assert speeds == sorted(speeds, reverse=True) and min(speeds) > 0
    assert found.lanes == host.lanes() and 0.5 <= found.clock_ghz <= 8.0


def test_a_measurement_counts_in_the_next_process_not_in_this_one(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = this_cpu.this_cpu()
    this_cpu.remember(SMALL)
    assert this_cpu.this_cpu() is before
    this_cpu.this_cpu.cache_clear()  # what a new process has
    assert this_cpu.this_cpu() == SMALL
    assert repr(before) != repr(SMALL)  # the key of what is decided for a device


@pytest.mark.parametrize(
    ("highest", "name", "ghz"),
    [("4100000", "model name : A CPU @ 2.50GHz", 4.1), ("", "model name\t: A CPU @ 2.50GHz\n", 2.5),
     ("x", "cpu MHz : 1200.7\n", 3.0), ("7", "model name : A @ 99.9GHz\n", 3.0), (None, None, 3.0),
     (None, "cpu MHz\t\t: 2596.152\nflags\t\t: fpu hypervisor\n", 2.596),
     (None, "cpu MHz\t\t: 2596.152\nflags\t\t: aperfmperf hypervisor\n", 3.0),
     (None, "cpu MHz : \nflags : hypervisor\n", 3.0)],
)  # fmt: skip
def test_the_clock_is_what_the_system_tells_where_that_can_be(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    highest: str | None,
    name: str | None,
    ghz: float,
) -> None:
    for file, text in (("FREQUENCY", highest), ("CPUINFO", name)):
        monkeypatch.setattr(host, file, tmp_path / file)
        if text is not None:
            (tmp_path / file).write_text(text)
    assert host.clock_ghz() == ghz


@pytest.mark.parametrize(
    ("processor", "name", "starts"),
    [("znver4", "", 1.0), ("znver4", "cpu-avx2", 2.0), ("znver5", "", 2.0),
     ("cascadelake", "", 2.0), ("tigerlake", "", 1.0),
     ("none yet", "", 1.0), ("none yet", "cpu-avx2", 2.0)],
)  # fmt: skip
def test_a_machine_starts_as_many_multiply_adds_as_its_processor(
    monkeypatch: pytest.MonkeyPatch, processor: str, name: str, starts: float
) -> None:
    monkeypatch.setattr(this_cpu, "lanes", lambda: 16)
    monkeypatch.setattr(this_cpu, "target", lambda: InstructionSet(processor, ("+avx512f",)))
    found = this_cpu.default_cpu()
    found = like(found, name) if name else found
    assert found.fma_per_cycle == starts
    assert found.peak_gflops_per_unit == 2 * starts * found.lanes * found.clock_ghz


def test_every_cache_has_a_size() -> None:
    sizes = host.cache_bytes()
    assert sizes["L1"] >= 1 << 13 and sizes["L2"] > sizes["L1"]
    assert host.lanes() in (4, 8, 16)


@pytest.mark.parametrize(
    ("size", "shared", "mib"),
    [("307200K", "0-1", 32), ("32768K", "0-7", 32), ("96M", "0-7,16-23", 96), ("300M", "", 16),
     ("64M", "x-y,3", 16), ("1024K", "0", 1)],
)  # fmt: skip
def test_of_a_hosts_last_level_cache_a_virtual_machine_has_what_its_cores_can_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str, shared: str, mib: int
) -> None:
    told = {"type": "Unified", "level": "3", "size": size, "shared_cpu_list": shared}
    (tmp_path / "index3").mkdir()
    for name, text in told.items():
        (tmp_path / "index3" / name).write_text(text)
    monkeypatch.setattr(host, "CACHES", tmp_path)
    assert host.cache_bytes()["L3"] == mib << 20


@pytest.mark.exhaustive
def test_a_measurement_is_plausible() -> None:
    found = this_cpu.measure()
    names = [m.name for m in found.levels]
    assert names == ["L1", "L2", "L3", "DRAM"]
    assert all(m.alone_gb_per_s > 0.5 for m in found.levels)
    assert 0.1 < found.clock_ghz < 10
    assert found.peak_gflops_per_unit > 1
    assert {name for name, _ in found.sources} >= {"alone_gb_per_s", "clock_ghz"}


@pytest.mark.exhaustive
def test_a_measurement_holds_the_costs_of_kernels_with_every_residual(own_cache: Path) -> None:
    found = this_cpu.measured_cpu()
    assert found.figures == "measured"
    assert found.costs.fits and all(f.measured_us > 0 for f in found.costs.fits)
    assert all(cycles >= 0 for cycles in found.costs.values)
    assert {name for name, _ in found.costs.stores} == {m.name for m in found.levels}
    assert this_cpu.from_json(json.dumps(asdict(found))) == found
