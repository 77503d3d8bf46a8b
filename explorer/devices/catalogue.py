"""Data sheets: hardware that is not here, as data, every number with its unit and source."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from explorer.devices.cpus import CPUS
from explorer.devices.model import Device
from explorer.devices.sheet import SHEETS, read_file, read_sheet
from explorer.errors import BadSheet, NoSuchDevice, did_you_mean

__all__ = ["HERE", "SHEETS", "SIMULATED", "device", "device_names", "read_sheet"]

HERE = ("cpu", "this-cpu")  # what the machine that this runs on is called
SIMULATED = "cuda-sim"  # a GPU whose threads run in Python, one after the other
SIMULATED_SHEET = "a100"  # whose blocks they are: chosen


@cache
def device_names() -> tuple[str, ...]:
    """Every data sheet, by name. The machine that this runs on is "this-cpu" and has none."""
    return tuple(
        sorted(p.name.removesuffix(".toml") for p in SHEETS.iterdir() if p.name.endswith(".toml"))
    )


def device(name: str) -> Device:
    """The device of a data sheet by its name, or of one in a file: "my_gpu.toml".

    Raises NoSuchDevice, which names those that there are, and BadSheet where a file is none.
    """
    if name.endswith(".toml"):
        return of_ones_own(read_file(Path(name)), Path(name).name)
    if name == SIMULATED:
        return replace(_shipped(SIMULATED_SHEET), name=SIMULATED)
    if name not in device_names():
        there = ", ".join(("this-cpu", *CPUS, SIMULATED, *device_names()))
        near = did_you_mean(name, there.split(", ")) or f"; there are {there}"
        raise NoSuchDevice(
            f"there is no data sheet for {name!r}{near}",
            where=name,
            expected=there,
            try_="a sheet of your own in a file: ./my_gpu.toml",
        )
    return _shipped(name)


@cache
def _shipped(name: str) -> Device:
    return read_sheet((SHEETS / f"{name}.toml").read_text(encoding="utf-8"), name)


def unit_word(device: str) -> str:
    """What one unit of a device is called: a core of a CPU, an SM of a GPU's data sheet."""
    name = device.partition(",")[0]  # of a changed one: "this-cpu, changed"
    return "core" if not name or name in HERE or name.startswith("cpu") else "SM"


def of_ones_own(device: Device, where: str) -> Device:
    """A device that does not ship, under a name that is free; BadSheet where it is taken."""
    if device.name in (*HERE, *CPUS, SIMULATED, *device_names()):
        raise BadSheet(
            f"{where}: {device.name!r} is the name of another device",
            where=where,
            found=device.name,
        )
    return device
