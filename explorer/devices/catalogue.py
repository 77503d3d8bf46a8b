"""Data sheets: hardware that is not here, as data, every number with its unit and source."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from explorer.devices.model import Device, MemoryLevel
from explorer.errors import NoSuchDevice

SHEETS = files("explorer.devices") / "datasheets"
NUMBERS = (
    "units", "lanes", "registers", "fma_per_cycle", "clock_ghz", "launch_us", "barrier_us",
    "task_ns", "banks",
)  # fmt: skip
LIMITS = (
    "block_threads", "block_registers", "thread_registers", "block_shared_bytes", "schedulers",
    "unit_threads", "unit_blocks", "unit_shared_bytes", "bank_bytes", "transaction_bytes",
    "unit_registers", "sustained_gflops", "thread_loads", "pipeline_cycles",
)  # fmt: skip


@cache
def device_names() -> tuple[str, ...]:
    """Every data sheet, by name. The machine that this runs on is "this-cpu" and has none."""
    return tuple(
        sorted(p.name.removesuffix(".toml") for p in SHEETS.iterdir() if p.name.endswith(".toml"))
    )


@cache
def device(name: str) -> Device:
    """The device of a data sheet. Raises NoSuchDevice, which names those that there are."""
    if name not in device_names():
        raise NoSuchDevice(
            f"there is no data sheet for {name!r}",
            where=name,
            expected=", ".join(("this-cpu", *device_names())),
        )
    return read_sheet((SHEETS / f"{name}.toml").read_text(encoding="utf-8"))


def read_sheet(text: str) -> Device:
    """A device from a data sheet in TOML, where bandwidths are of all units, not of one."""
    sheet: Mapping[str, Any] = tomllib.loads(text)
    units = sheet["units"]["value"]
    return Device(
        name=sheet["name"],
        kind=sheet["kind"],
        levels=tuple(_level(level, units) for level in sheet["levels"]),
        sources=tuple(_sources(sheet)),
        **{name: sheet[name]["value"] for name in _given(sheet)},
    )


def _given(sheet: Mapping[str, Any]) -> tuple[str, ...]:
    """The numbers of a sheet: all of `NUMBERS`, and those of `LIMITS` that it has."""
    return (*NUMBERS, *(name for name in LIMITS if name in sheet))


def _level(level: Mapping[str, Any], units: int) -> MemoryLevel:
    capacity = level.get("capacity")
    return MemoryLevel(
        level["name"],
        None if capacity is None else capacity["value"],
        round(level["bandwidth"]["value"] / units, 3),
        level["line"]["value"],
        level["shared"],
        latency_ns=level.get("latency", {}).get("value", 0.0),
    )


def _sources(sheet: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _given(sheet):
        yield name, f"{sheet[name]['unit']}: {sheet[name]['source']}"
    for level in sheet["levels"]:
        for part in ("capacity", "bandwidth", "latency", "line"):
            if part in level:
                entry = level[part]
                yield f"{level['name']} {part}", f"{entry['unit']}: {entry['source']}"
