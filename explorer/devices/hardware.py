"""Changed hardware: the figures of a device that may be changed, with ranges, and the result.

    changed(v100, {"units": 160})   ->   twice the multiprocessors before the same memory

A change keeps what people expect it to keep. With more units, shared memory has the same bandwidth
and each unit as much private memory as before; with another clock, kernels reach the same share of
the peak.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from explorer.devices.costs import NAMES, Costs
from explorer.devices.model import Device, MemoryLevel
from explorer.devices.sheet import (
    LEVELS,
    LIMITS,
    MOST_CORES,
    NUMBERS,
    OF_ALL_UNITS,
    WITHIN,
    NumberRange,
    short,
)
from explorer.errors import BadOption, did_you_mean

UNITS, MEMORY, OVERHEADS, LIMIT, COSTS = (
    "units",
    "memory",
    "overheads",
    "limits of a block",
    "cost of a kernel, in cycles",
)
OVERHEAD = ("launch_us", "barrier_us", "task_ns", "phase_ns")
LEVEL_PARTS = {
    "capacity": "how much it holds, for a unit or, where all share it, for all",
    "bandwidth": "GB/s that all units read from it together",
    "latency": "ns until what was loaded from it can be used",
    "ways": "lines of a set",
}
MACHINE_TELLS = {"capacity": "capacity_bytes", "bandwidth": "alone_gb_per_s"}
SAYS = {
    "units": "cores, or multiprocessors",
    "lanes": "float32 elements of a vector register, or threads of a warp",
    "registers": "vector registers, or registers of a thread",
    "fma_per_cycle": "vector multiply-adds that a unit starts in a cycle",
    "clock_ghz": "GHz",
    "sustained_gflops": "GFLOP/s that kernels reach on all units",
    "matrix_gflops": "GFLOP/s of products of 16-bit floats on matrix units, all units",
    "launch_us": "us that a launch takes",
    "barrier_us": "us that all units take to meet",
    "task_ns": "ns that the runtime adds to a task",
    "phase_ns": "ns that a block takes from one phase to the next",
    "banks": "banks of shared memory",
    "thread_loads": "loads of 4 bytes that a thread has under way",
    "pipeline_cycles": "cycles until a multiply-add's result can be used",
    "schedulers": "warp schedulers of a unit",
    "transaction_bytes": "bytes of the least that memory moves",
    "block_threads": "threads of a block, at most",
    "block_registers": "registers of a block, at most",
    "thread_registers": "elements of a thread's register tile, at most",
    "block_shared_bytes": "shared memory of a block, at most",
    "unit_threads": "threads that a unit holds at once",
    "unit_blocks": "blocks that a unit holds at once",
    "unit_shared_bytes": "shared memory of a unit",
    "unit_registers": "registers of a unit",
}
COST_SAYS = {
    "tile": "a register tile that begins and ends",
    "sum": "a vector of its sums made zero and stored",
    "row": "an entry of the row table",
    "edge_row": "a row of a register tile that goes through L1",
    "edge_vector": "a vector there",
    "edge_element": "an element there past the last whole vector",
    "pack": "an element packed alone",
    "turn": "an element turned in a block",
    "strip": "a row of blocks that begins",
    "run": "an innermost loop that begins",
    "vector": "one operation on a vector",
    "element": "one on an element past the last whole vector",
    "strided": "a lane of a load or store that is not dense",
    "horizontal": "the sum across a vector",
    "function": "how much of its listed cycles an elementary function takes",
    "start": "a task that begins",
    "jump": "until the first line of a page is there",
    "unhidden": "the share of a shared memory's time that computing does not hide",
}
CYCLES = NumberRange(0, 1e6, is_integer=False)
SHARE = NumberRange(0, 1, is_integer=False)
VECTORS = (4, 8, 16)  # lanes that code for a CPU is printed with
CODE_FIGURES = ("capability", "bank_bytes")  # what code is printed for, no size or speed
SUFFIXES = {"": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
AMOUNT = re.compile(r"(\d{1,30}(?:\.\d{1,30})?(?:e[+-]?\d{1,2})?) ?(|[KMG]iB)", re.I | re.ASCII)


@dataclass(frozen=True, slots=True)
class Options:
    """Changed figures of the device that a model is compiled for.

    An example is `Options({"units": 160, "L2 capacity": 1 << 20})`. `figures(device)` lists the
    figures of a device.
    """

    changed: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        """Sort the changes, or raise BadOption."""
        pairs: Any = self.changed
        rows = tuple(pairs.items()) if isinstance(pairs, Mapping) else pairs
        if not isinstance(rows, tuple) or not all(map(_is_row, rows)):
            raise BadOption(
                f"hardware.changed is pairs of a figure's name and a number, found {short(pairs)}",
                where="hardware.changed",
                expected='{"units": 160}',
                actual=short(pairs),
            )
        last = {name: float(value) for name, value in rows}
        object.__setattr__(self, "changed", tuple(sorted(last.items())))


def _is_row(row: object) -> bool:
    """Return True if a value is a pair of a name and a finite number."""
    if not isinstance(row, tuple) or len(row) != 2 or not isinstance(row[0], str):
        return False
    number = isinstance(row[1], int | float) and not isinstance(row[1], bool)
    return number and isfinite(row[1])


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a device: `says` is its meaning and unit, `source` where it is from."""

    name: str
    group: str
    value: float
    number: NumberRange
    says: str
    source: str = ""

    @property
    def legal(self) -> str:
        """The allowed values in words."""
        low, high = self.number.low, self.number.high
        if self.number.unit == "bytes":
            return "a size such as 256 KiB"
        if self.number.is_integer:
            return f"a whole number from {low:,.0f} to {high:,.0f}"
        least = "a number of at least 0" if low == 0 else "a number above 0"
        return least if high >= UNLIMITED else f"{least}, at most {high:,g}"

    def fits(self, value: float) -> bool:
        """Return True if the figure may have this value."""
        is_integral = not self.number.is_integer or float(value).is_integer()
        return is_integral and self.number.low <= value <= self.number.high


UNLIMITED = 1e9  # a bound that no hardware comes near, which nobody needs to read


def figures(device: Device) -> tuple[Figure, ...]:
    """Return the changeable numbers of a device at their present values.

    Kernel costs are known for CPUs only.
    """
    sources = dict(device.sources)
    costs = _costs(device.costs) if device.kind == "cpu" else ()
    every = (*_units(device), *_memory(device), *_overheads(device), *_limits(device), *costs)
    return tuple(replace(f, source=_source(sources, f)) for f in every)


def _source(sources: Mapping[str, str], f: Figure) -> str:
    """Return the source of a figure.

    A sheet states one for each figure, this machine one for all of a kind.
    """
    if f.group == COSTS:
        return sources.get("costs", "")
    part = f.name.rpartition(" ")[2]
    return sources.get(f.name, sources.get(MACHINE_TELLS.get(part, part), ""))


def changed(device: Device, changes: Iterable[tuple[str, float]]) -> Device:
    """Return the device with other figures, or unchanged if none is given.

    Changes of a changed device apply to its base. They are applied in the order of `figures`.

    Raises:
        BadOption: There is no such figure, the value is out of range, or it exceeds the figure that
            it is a part of.
    """
    was, wanted = device.base or device, dict(changes)
    if not wanted:
        return device
    figures_by_name = {f.name: f for f in figures(was)}
    for name in wanted:
        if name not in figures_by_name:
            raise _unknown(was, name, figures_by_name)
    wanted = {
        n: wanted[n]
        for n in figures_by_name
        if n in wanted and wanted[n] != figures_by_name[n].value
    }
    if not wanted:
        return was
    device_now = was
    for name, value in wanted.items():
        figure = figures_by_name[name]
        if not figure.fits(value):
            raise _wrong(was, name, figure.legal, value)
        if was.kind == "cpu" and name == "lanes" and value not in VECTORS:
            raise _wrong(was, name, f"{', '.join(map(str, VECTORS))} on a CPU", value)
        device_now = _with(
            device_now, name, int(value) if figure.number.is_integer else float(value)
        )
    for part, limit in WITHIN:
        most = getattr(device_now, limit)
        if most and getattr(device_now, part) > most:
            raise _wrong(was, part, f"at most {limit}, which is {most}", getattr(device_now, part))
    return replace(device_now, name=f"{was.name}, changed", base=was)


def changes(device: Device) -> Iterator[tuple[str, float, float]]:
    """Yield the figures that were changed: name, new value and old value."""
    if device.base is None:
        return
    was = {f.name: f.value for f in figures(device.base)}
    for figure in figures(device):
        if abs(figure.value - was[figure.name]) > 1e-9 * abs(figure.value):
            yield figure.name, figure.value, was[figure.name]


def amount(text: str) -> float:
    """Return the number in a text such as "160", "1.5" or "512 KiB"; ValueError without one."""
    match = AMOUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    return float(match[1]) * SUFFIXES[match[2].lower()]


def _units(d: Device) -> Iterator[Figure]:
    """Yield the figures of the units."""
    for name in ("units", "lanes", "registers", "fma_per_cycle", "clock_ghz"):
        number = NUMBERS[name]
        if name == "units" and d.kind == "cpu":
            number = replace(number, high=MOST_CORES)
        yield Figure(name, UNITS, getattr(d, name), number, SAYS[name])
    for name in OF_ALL_UNITS:
        if value := getattr(d, name):
            yield Figure(name, UNITS, value, LIMITS[name], SAYS[name])


def _memory(d: Device) -> Iterator[Figure]:
    """Yield the figures of each memory level."""
    for level in d.levels:
        have = {
            "capacity": level.capacity_bytes or 0,
            "bandwidth": d.all_gb_per_s(level),
            "latency": level.latency_ns,
            "ways": level.ways,
        }
        for part, value in have.items():
            if value:
                name = f"{level.name} {part}"
                yield Figure(name, MEMORY, value, LEVELS[part], LEVEL_PARTS[part])


def _overheads(d: Device) -> Iterator[Figure]:
    """Yield the figures of the runtime's overheads."""
    for name in OVERHEAD:
        if name in NUMBERS or getattr(d, name):
            number = (NUMBERS | LIMITS)[name]
            yield Figure(name, OVERHEADS, getattr(d, name), number, SAYS[name])


def _limits(d: Device) -> Iterator[Figure]:
    """Yield the limits of a thread block."""
    if d.kind != "gpu":
        return
    listed_elsewhere = {*OF_ALL_UNITS, *OVERHEAD, *CODE_FIGURES}
    for name in ("banks", *(n for n in LIMITS if n not in listed_elsewhere)):
        if value := getattr(d, name):
            number = (NUMBERS | LIMITS)[name]
            yield Figure(name, LIMIT, value, number, SAYS[name])


def _costs(costs: Costs) -> Iterator[Figure]:
    """Yield the costs of kernels."""
    for name in (*NAMES, "jump", "unhidden"):
        number = SHARE if name == "unhidden" else CYCLES
        yield Figure(f"cost {name}", COSTS, getattr(costs, name), number, COST_SAYS[name])


def _with(d: Device, name: str, value: Any) -> Device:
    """Return the device with one figure changed."""
    level, _, part = name.rpartition(" ")
    if level == "cost":
        return replace(d, costs=replace(d.costs, **{part: value}))
    if level:
        return _with_level(d, d.level(level), part, value)
    match name:
        case "units":
            return _with_units(d, value)
        case "sustained_gflops" | "matrix_gflops":
            return replace(d, **{OF_ALL_UNITS[name]: value / d.units})
        case "lanes" | "fma_per_cycle" | "clock_ghz":
            by = value / getattr(d, name)
            matrix = d.unit_matrix_gflops * (by if name == "clock_ghz" else 1)
            scaled = replace(d, unit_gflops=d.unit_gflops * by, unit_matrix_gflops=matrix)
            return replace(scaled, **{name: value})
        case _:
            return replace(d, **{name: value})


def _with_level(d: Device, level: MemoryLevel, part: str, value: Any) -> Device:
    """Return the device with one figure of a memory level changed."""
    if part == "bandwidth":
        return _scaled(d, level, value / d.all_gb_per_s(level))
    field = {"capacity": "capacity_bytes", "latency": "latency_ns", "ways": "ways"}[part]
    return _with_memory(d, replace(level, **{field: value}))


def _with_memory(d: Device, level: MemoryLevel) -> Device:
    """Return the device with one memory level replaced."""
    levels = tuple(level if m.name == level.name else m for m in d.levels)
    return replace(d, levels=levels)


def _scaled(d: Device, level: MemoryLevel, by: float) -> Device:
    """Return the device with one memory faster by a factor, for one unit and for all."""
    together = tuple((n, x * by if n == level.name else x) for n, x in d.costs.together)
    d = replace(d, costs=replace(d.costs, together=together))
    return _with_memory(d, replace(level, alone_gb_per_s=level.alone_gb_per_s * by))


def _with_units(d: Device, units: int) -> Device:
    """Return the device with more or fewer units; shared memory keeps its total bandwidth."""
    all_gb: Mapping[str, float] = {m.name: d.all_gb_per_s(m) for m in d.levels if m.shared}
    resized = replace(d, units=units)
    together = dict(d.costs.together)
    for level in d.levels:
        if not level.shared:
            continue
        share = all_gb[level.name] / units
        if d.kind == "cpu":  # one alone has no less than before
            together[level.name] = min(level.alone_gb_per_s, share)
        else:  # a data sheet tells of all together
            resized = _with_memory(resized, replace(level, alone_gb_per_s=share))
    return replace(resized, costs=replace(d.costs, together=tuple(together.items())))


def _unknown(d: Device, name: str, names: Iterable[str]) -> BadOption:
    """Return the error for an unknown figure."""
    there = ", ".join(names)
    hint = did_you_mean(name, names) or f"; there are {there}"
    return BadOption(
        f"{d.name} has no figure {short(name)} that could be changed{hint}",
        where="hardware",
        expected=there,
        actual=short(name),
    )


def _wrong(d: Device, name: str, wanted: str, value: float) -> BadOption:
    """Return the error for a value out of range."""
    value = int(value) if float(value).is_integer() else value
    return BadOption(
        f"{name} of {d.name} is {wanted}, found {short(value)}",
        where=f"hardware.{name}",
        expected=wanted,
        actual=short(value),
    )
