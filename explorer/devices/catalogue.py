"""Data sheets of hardware that is not here; every number has its unit and source."""

from __future__ import annotations

from collections.abc import Mapping
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
def device_names(kind: str = "") -> tuple[str, ...]:
    """Return the name of every data sheet, or of those of a kind, "cpu" or "gpu".

    The machine that this runs on, "this-cpu", has no sheet.
    """
    files = (p.name for p in SHEETS.iterdir() if p.name.endswith(".toml"))
    names = sorted(name.removesuffix(".toml") for name in files)
    return tuple(name for name in names if not kind or _shipped(name).kind == kind)


@cache
def aliases() -> Mapping[str, str]:
    """Return other names of devices, such as that of their processor: sheets by alias."""
    import tomllib

    text = (
        (name, (SHEETS / f"{name}.toml").read_text(encoding="utf-8")) for name in device_names()
    )
    named = ((name, tomllib.loads(t)) for name, t in text if "\naliases = " in t)
    return {alias: name for name, sheet in named for alias in sheet["aliases"]}


def is_known(name: str) -> bool:
    """Return True if a data sheet that ships with Ironworks has the name, or the alias."""
    return name in device_names() or name in aliases()


def device(name: str) -> Device:
    """Return the device of a data sheet by its name or alias, or by its file: "my_gpu.toml".

    Raises:
        NoSuchDevice: There is no such sheet; the error lists those there are.
        BadSheet: The file is not a valid sheet.
    """
    if name.endswith(".toml"):
        return check_user_device(read_file(Path(name)), Path(name).name)
    if name == SIMULATED:
        return replace(_shipped(SIMULATED_SHEET), name=SIMULATED)
    name = aliases().get(name, name)
    if name not in device_names():
        there = ", ".join(("this-cpu", *CPUS, SIMULATED, *device_names()))
        near = did_you_mean(name, (*there.split(", "), *aliases())) or f"; there are {there}"
        raise NoSuchDevice(
            f"there is no data sheet for {name!r}{near}",
            where=name,
            expected=there,
            try_="a sheet of your own in a file: ./my_gpu.toml",
        )
    return _shipped(name)


@cache
def _shipped(name: str) -> Device:
    """Read a data sheet that ships with Ironworks."""
    return read_sheet((SHEETS / f"{name}.toml").read_text(encoding="utf-8"), name)


_user_unit_words: dict[str, str] = {}  # by the names of users' devices


def unit_word(device: str) -> str:
    """Return the word for a unit of a device by its name: "core" of a CPU, "SM" of a GPU."""
    name = device.partition(",")[0]  # of a changed one: "this-cpu, changed"
    if name in _user_unit_words:
        return _user_unit_words[name]
    if name in device_names():
        return _shipped(name).unit_word
    return "core" if not name or name in HERE or name.startswith("cpu") else "SM"


def check_user_device(device: Device, where: str) -> Device:
    """Return a user's device unchanged; raise BadSheet if its name is taken."""
    if device.name in (*HERE, *CPUS, SIMULATED, *device_names(), *aliases()):
        raise BadSheet(
            f"{where}: {device.name!r} is the name of another device",
            where=where,
            actual=device.name,
        )
    _user_unit_words[device.name] = device.unit_word
    return device
