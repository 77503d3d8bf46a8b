"""`ironworks devices` and `ironworks zoo`: the devices and the models that are known by name.

Devices are data sheets and this machine, measured or with defaults.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict

from explorer.cli.arguments import Parser, parse_flags, plugin_flag
from explorer.cli.terminal import print_answer, progress_line
from explorer.devices.catalogue import device, device_names
from explorer.devices.costs import NAMES, Fit
from explorer.devices.model import Device, MemoryLevel
from explorer.errors import BadOption
from explorer.frontends import zoo
from explorer.frontends.zoo import searched
from explorer.measure.in_background import measured_undisturbed
from explorer.measure.this_cpu import this_cpu
from explorer.measure.turns import Disturbance
from explorer.plain_text import size, table
from explorer.views.answer import Answer

DEFAULT = (
    "this-cpu was not measured: its bandwidths and costs are defaults (ironworks devices --measure)"
)
LEVELS = ("L1", "L2", "L3", "DRAM", "exchange")  # the columns of what is included
WEIGHT_BYTES = 4
LEAST_GB_PER_S = 0.001  # what sheets' bandwidths of one unit are rounded to


def main(argv: Sequence[str]) -> int:
    """List the devices."""
    parser = Parser("devices", "What hardware is known: data sheets, and this machine.")
    parser.add_argument("name", nargs="?", metavar="NAME", help="one device, with every source")
    parser.add_argument("--measure", action="store_true", help="measure this machine, some seconds")
    plugin_flag(parser)
    flags = parse_flags(parser, argv)
    return print_answer(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """Return every device as a row, or one with the source of each number."""
    if flags.measure:
        return _measure(flags)
    here = this_cpu()
    if flags.name in ("cpu", "this-cpu"):
        return _describe_device(here)
    if flags.name is not None:
        return _describe_device(device(flags.name))
    return _list_devices(here, "")


def _list_devices(here: Device, more: str) -> Answer:
    devices = [here, *(device(name) for name in device_names())]
    return Answer({"devices": [_fields(each) for each in devices]}, _text(devices) + more)


def _measure(flags: Namespace) -> Answer:
    """Measure this machine; the answer is no if other processes disturbed it."""
    if flags.name not in (None, "cpu", "this-cpu"):
        raise BadOption(
            f"{flags.name} is a data sheet: only this machine can be measured", where="--measure"
        )
    with progress_line("measuring this machine"):
        measured, disturbance = measured_undisturbed()
    answer = (
        _describe_device(measured)
        if flags.name
        else _list_devices(measured, f"\n\n{_costs(measured)}")
    )
    more = f"\n\n  {_disturbed_note(disturbance)}" if disturbance.disturbed else ""
    data = answer.data if isinstance(answer.data, dict) else {}
    return Answer(data | {"kept": not more}, answer.text + more, yes=not more)


def _disturbed_note(bore: Disturbance) -> str:
    return (
        f"not kept: the machine was busy, and threads stood in line for {bore.in_line:.0%} of the"
        " time; measure again when nothing else runs"
    )


def _fields(each: Device) -> dict[str, object]:
    peak = each.peak_gflops_per_unit
    return asdict(each) | {
        "sources": dict(each.sources),
        "peak_gflops_per_unit": peak,
        "peak_gflops": peak * each.units,
    }


def _text(devices: Sequence[Device]) -> str:
    levels = LEVELS if len(devices) > 1 else tuple(m.name for m in devices[0].levels)
    rows = [(*_shape(d), *(_level(d, name) for name in levels)) for d in devices]
    head = ("device", ">units", ">lanes", ">GHz", ">GFLOP/s", *(f">{name}" for name in levels))
    note = "Of each memory: capacity, and GB/s for one unit. GFLOP/s: float32, all units."
    text = f"{table(head, rows)}\n\n  {note}"
    if any(d.figures == "default" for d in devices):
        return f"{text}\n  {DEFAULT}"
    return text


def _shape(d: Device) -> tuple[str, ...]:
    peak = d.peak_gflops_per_unit * d.units
    name = f"{d.name} ({d.figures})" if d.figures else d.name
    return name, f"{d.units}", f"{d.lanes}", f"{d.clock_ghz:.2f}", f"{peak:,.0f}"


def _level(d: Device, name: str) -> str:
    memory = next((level for level in d.levels if level.name == name), None)
    return "" if memory is None else _memory(memory)


def _memory(level: MemoryLevel) -> str:
    capacity = "" if level.capacity_bytes is None else f"{size(level.capacity_bytes)}, "
    return f"{capacity}{level.alone_gb_per_s:,.0f} GB/s"


def _describe_device(d: Device) -> Answer:
    rows = [(name, _value(d, name), source) for name, source in d.sources]
    head = ("number", ">value", "unit and source")
    text = f"{_text([d])}\n\n{table(head, rows)}"
    return Answer(_fields(d), f"{text}\n\n{_costs(d)}" if d.costs.fits else text)


def _costs(d: Device) -> str:
    """Return the fitted constants of the cost model and the error of each probe."""
    cycles = [(name, f"{value:,.2f}") for name, value in zip(NAMES, d.costs.values, strict=True)]
    together, stores = dict(d.costs.together), dict(d.costs.stores)
    levels = [
        (m.name, f"{m.alone_gb_per_s:,.0f}", f"{together.get(m.name, 0):,.0f}",
         f"{stores.get(m.name, 1):.2f}")
        for m in d.levels
    ]  # fmt: skip
    fits = [
        (f.probe, f"{f.measured_us:,.3f}", f"{f.modelled_us:,.3f}", _error(f), f"{f.spread:.1%}")
        for f in d.costs.fits
    ]
    parts = (
        table(("memory", ">GB/s alone", ">GB/s each, all", ">a byte stored"), levels),
        table(("cost of kernels", ">cycles"), cycles),
        table(("probe", ">measured us", ">predicted us", ">error", ">spread"), fits),
    )
    return "\n\n".join(parts)


def _error(f: Fit) -> str:
    return f"{f.modelled_us / f.measured_us - 1:+.1%}" if f.measured_us else ""


def _value(d: Device, name: str) -> str:
    """Return the number of that name: a field, or a part of a memory such as `L1 capacity`."""
    level, _, part = name.partition(" ")
    memory = next((m for m in d.levels if m.name == level), None)
    if memory is None:
        value = getattr(d, name, None)
    else:
        fields = {
            "capacity": memory.capacity_bytes,
            "latency": memory.latency_ns,
            "line": memory.line_bytes,
        }
        value = fields.get(part, _stated(d.all_gb_per_s(memory), d.units))
    if not isinstance(value, (int, float)):
        return ""
    return f"{value:,.6g}" if isinstance(value, float) else f"{value:,}"


def _stated(gb_per_s: float, units: int) -> float:
    """Return the bandwidth that a sheet stated: the shortest number that is rounded to this one."""
    shorter = (float(f"{gb_per_s:.{digits}g}") for digits in range(1, 7))
    return next((x for x in shorter if abs(x - gb_per_s) <= LEAST_GB_PER_S / 2 * units), gb_per_s)


def zoo_main(argv: Sequence[str]) -> int:
    """List the models."""
    flags = parse_flags(
        Parser(
            "zoo", "The models that are here by name: give zoo:NAME wherever a MODEL is asked for."
        ),
        argv,
    )
    return print_answer(zoo_answer(), flags.json)


def zoo_answer() -> Answer:
    """Return every model with its paper and the size of its weights."""
    models = [
        {
            "name": f"{zoo.PREFIX}{entry.name}",
            "paper": entry.paper,
            "weights": entry.weights,
            "weight_bytes": entry.weights * WEIGHT_BYTES,
        }
        for entry in zoo.ENTRIES.values()
    ]
    rows = [
        (f"{zoo.PREFIX}{e.name}", f"{e.weights:,}", size(e.weights * WEIGHT_BYTES), e.paper)
        for e in zoo.ENTRIES.values()
    ]
    text = table(("model", ">weights", ">size", "paper"), rows)
    note = (
        "Real graphs. The weights are random, from one seed: for tests and timing.\n"
        f"  {zoo.PREFIX}{searched.NASBENCH}17 is a random module of the seed 17 (Ying et al. 2019)."
    )
    return Answer({"models": models}, f"{text}\n\n  {note}")
