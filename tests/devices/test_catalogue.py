"""Data sheets are complete: every number has a unit and a source."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from explorer.devices.catalogue import SHEETS, device, device_names, read_sheet
from explorer.devices.costs import Costs
from explorer.devices.model import Device, MemoryLevel
from explorer.devices.sheet import LIMITS, NUMBERS
from explorer.errors import NoSuchDevice

# float32 TFLOP/s as the makers print them
PEAKS = {
    "v100": 15.7,
    "a100": 19.5,
    "h100": 67.0,
    "h200": 67.0,
    "rtx3090": 35.6,
    "mi50": 13.4,
    "ipu": 31.1,
}


def test_the_devices_of_the_papers_are_there() -> None:
    assert {"v100", "mi50", "ipu", "a100", "h100", "h200", "rtx3090"} <= set(device_names())


@pytest.mark.parametrize("name", device_names())
def test_every_number_has_a_unit_and_a_source(name: str) -> None:
    sheet = tomllib.loads((SHEETS / f"{name}.toml").read_text())
    code = sheet.pop("instruction_set", {"source": "of a GPU"})
    assert code["source"]
    entries = [v for v in sheet.values() if isinstance(v, dict)]
    entries += [v for level in sheet["levels"] for v in level.values() if isinstance(v, dict)]
    assert len(entries) > 12
    for entry in entries:
        assert entry["unit"] and entry["source"] and entry["value"] >= 0
    loose = [k for k, v in sheet.items() if isinstance(v, int | float)]
    assert not loose, "a number without a source"


@pytest.mark.parametrize("name", sorted(PEAKS))
def test_the_peak_is_the_makers_peak(name: str) -> None:
    found = device(name)
    assert found.peak_gflops_per_unit * found.units / 1e3 == pytest.approx(PEAKS[name], rel=0.01)


@pytest.mark.parametrize("name", device_names())
def test_nearer_memories_are_faster_and_smaller(name: str) -> None:
    levels = device(name).levels
    names = (["L1", "L2", "DRAM"], ["L1", "L2", "L3", "DRAM"], ["L1", "exchange"])
    assert [m.name for m in levels] in names
    speeds = [m.alone_gb_per_s for m in levels]
    assert speeds == sorted(speeds, reverse=True)
    assert levels[-1].capacity_bytes is None and levels[-1].shared and not levels[0].shared
    waits = [m.latency_ns for m in levels[1:] if m.latency_ns]
    assert waits == sorted(waits) and (waits or device(name).kind == "cpu")


@pytest.mark.parametrize("name", device_names("gpu"))
def test_a_block_takes_no_more_than_a_unit_has(name: str) -> None:
    found = device(name)
    assert 0 < found.block_threads <= found.unit_threads
    assert 0 < found.block_shared_bytes <= found.unit_shared_bytes
    assert found.unit_registers and found.thread_loads > 1 and found.pipeline_cycles > 1
    assert found.thread_registers <= found.registers
    assert found.reached_gflops_per_unit <= found.peak_gflops_per_unit * 1.01  # makers round


def test_rollers_v100_is_the_artifacts() -> None:
    v100 = device("v100")
    limits = (v100.block_registers, v100.thread_registers, v100.block_shared_bytes)
    assert limits == (32768, 96, 49152)
    assert (v100.transaction_bytes, v100.block_threads, v100.sustained_gflops) == (32, 512, 12480)
    assert v100.reached_gflops_per_unit == pytest.approx(156)


def test_a_sheet_may_say_nothing_of_the_limits_of_a_block() -> None:
    sheet = (SHEETS / "v100.toml").read_text()
    start, end = sheet.index("[block_threads]"), sheet.index("[block_registers]")
    found = read_sheet(sheet[:start] + sheet[end:])
    assert found.block_threads == 0 and found.block_registers == 32768


def test_bandwidths_are_one_units_share() -> None:
    v100 = device("v100")
    assert v100.level("DRAM").alone_gb_per_s * v100.units == pytest.approx(750)
    assert v100.level("L1").alone_gb_per_s * v100.units == pytest.approx(12080)


@pytest.mark.parametrize("name", device_names())
def test_all_units_of_a_sheet_read_what_it_says(name: str) -> None:
    found, sheet = device(name), tomllib.loads((SHEETS / f"{name}.toml").read_text())
    for level, said in zip(found.levels, sheet["levels"], strict=True):
        assert found.all_gb_per_s(level) == pytest.approx(said["bandwidth"]["value"], rel=1e-3)
        assert found.each_gb_per_s(level) == level.alone_gb_per_s


def test_units_that_read_at_once_have_what_was_measured_together() -> None:
    """One core reads 14 GB/s from memory; both at once 9 each, 18 in all."""
    levels = (MemoryLevel("L1", 48 << 10, 400.0, 64), MemoryLevel("DRAM", None, 14.0, 64, True))
    costs = Costs(together=(("DRAM", 9.0),))
    both = Device("both", "cpu", 2, 16, 32, 2.0, 4.0, levels, costs=costs)
    assert [both.each_gb_per_s(m) for m in levels] == [400.0, 9.0]
    assert [both.all_gb_per_s(m) for m in levels] == [800.0, 18.0]
    one = replace(both, units=1)
    assert [one.all_gb_per_s(m) for m in levels] == [400.0, 14.0]


def test_an_unknown_device_is_refused_by_name() -> None:
    with pytest.raises(NoSuchDevice, match="'v1000'") as problem:
        device("v1000")
    assert "v100" in problem.value.expected


def test_a_sheet_is_read_as_it_is_written() -> None:
    text = (SHEETS / "v100.toml").read_text()
    assert read_sheet(text) == device("v100")


HAS_NOT = {("mi50", "capability"), ("mi50", "matrix_gflops"), ("ipu", "capability")}
HAS_NOT |= {("webgpu", "capability"), ("webgpu", "matrix_gflops")}


@pytest.mark.parametrize("name", device_names("gpu"))
def test_a_sheet_has_every_figure_that_its_hardware_has(name: str) -> None:
    sheet = tomllib.loads((SHEETS / f"{name}.toml").read_text())
    missing = {(name, figure) for figure in (*NUMBERS, *LIMITS) if figure not in sheet}
    assert missing == {pair for pair in HAS_NOT if pair[0] == name}
    shared = [level for level in sheet["levels"] if level["shared"]]
    assert all("latency" in level and "bandwidth" in level for level in shared)


def test_newer_sheets_compute_and_read_faster() -> None:
    older, newer, newest = (device(name) for name in ("v100", "a100", "h100"))
    for a, b in ((older, newer), (newer, newest)):
        assert a.sustained_gflops < b.sustained_gflops and a.matrix_gflops < b.matrix_gflops
        for level in a.levels:
            assert a.all_gb_per_s(level) < b.all_gb_per_s(b.level(level.name))
