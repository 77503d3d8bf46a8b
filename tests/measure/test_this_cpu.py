"""This machine as a device: measured once, remembered, and within what any machine is."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from explorer.devices.model import Device, MemoryLevel
from explorer.measure import this_cpu

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


def test_a_measurement_is_read_back_as_it_was() -> None:
    assert this_cpu.from_json(json.dumps(asdict(SMALL))) == SMALL


def test_a_remembered_machine_is_not_measured_again(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert this_cpu.remembered() is None
    this_cpu.remember(SMALL)
    monkeypatch.setattr(this_cpu, "measure", lambda: pytest.fail("measured again"))
    this_cpu.this_cpu.cache_clear()
    try:
        assert this_cpu.this_cpu() == SMALL
    finally:
        this_cpu.this_cpu.cache_clear()


def test_every_cache_has_a_size() -> None:
    sizes = this_cpu.cache_bytes()
    assert sizes["L1"] >= 1 << 13 and sizes["L2"] > sizes["L1"]
    assert this_cpu.lanes() in (4, 8, 16)


def test_a_measurement_is_plausible() -> None:
    found = this_cpu.measure()
    names = [m.name for m in found.levels]
    assert names == ["L1", "L2", "L3", "DRAM"]
    assert all(m.bandwidth_gb_per_s > 0.5 for m in found.levels)
    assert 0.1 < found.clock_ghz < 10
    assert found.peak_gflops_per_unit > 1
    assert {name for name, _ in found.sources} >= {"bandwidth_gb_per_s", "clock_ghz"}


def test_a_measurement_holds_the_costs_of_kernels_with_every_residual() -> None:
    found = this_cpu.this_cpu()
    assert found.costs.fits and all(f.measured_us > 0 for f in found.costs.fits)
    assert all(cycles >= 0 for cycles in found.costs.values)
    assert {name for name, _ in found.costs.stores} == {m.name for m in found.levels}
    assert this_cpu.from_json(json.dumps(asdict(found))) == found
