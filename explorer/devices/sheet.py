"""Reader of data sheets in TOML.

A sheet is untrusted input: every number has its unit, its source and a range, and unknown keys are
refused.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

from explorer.devices.isa import ARCHITECTURES, InstructionSet
from explorer.devices.model import Device, MemoryLevel
from explorer.errors import BadSheet, did_you_mean

SHEETS = files("explorer.devices") / "datasheets"
MOST_BYTES = 1 << 18  # of a sheet
MOST_LEVELS = 8
MOST_CORES = 1024  # of a CPU: as many as there may be workers
LONGEST = 300  # characters of a text in it
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
NAME_WORDS = "a short word of a-z, 0-9, - and _ (up to 32 of them)"
LEVEL = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,15}", re.ASCII)
TRIPLE = re.compile(rf"({'|'.join(ARCHITECTURES)})(-[a-z0-9_.]+){{1,3}}", re.ASCII)
PROCESSOR = re.compile(r"[a-z0-9][a-z0-9_.-]{0,31}", re.ASCII)
FEATURE = re.compile(r"[+-][a-z0-9][a-z0-9_.-]{0,31}", re.ASCII)
MOST_FEATURES = 64
MOST_ALIASES = 8


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Range of a number, the start of its unit ("" for any), and if it must be an integer.

    `all_units`: the unit must state that it is of all units together.
    """

    low: float
    high: float
    unit: str = ""
    is_integer: bool = True
    all_units: bool = False

    def __str__(self) -> str:
        """Return the kind of number and the range."""
        kind = "a whole number" if self.is_integer else "a number"
        return f"{kind} from {self.low:,.16g} to {self.high:,.16g}"

    @property
    def example(self) -> str:
        """A number within the range."""
        return f"{max(self.low, min(self.high, 80)):g}"


def _positive(high: float, unit: str, all_units: bool = False) -> NumberRange:
    """Return the range of a positive real number."""
    return NumberRange(1e-6, high, unit, is_integer=False, all_units=all_units)


def _time(unit: str) -> NumberRange:
    """Return the range of a time."""
    return NumberRange(0, 1e9, unit, is_integer=False)


NUMBERS = {
    "units": NumberRange(1, 1 << 16),
    "lanes": NumberRange(1, 1024),
    "registers": NumberRange(1, 4096),
    "fma_per_cycle": _positive(1024, ""),
    "clock_ghz": _positive(100, "GHz"),
    "launch_us": _time("us"),
    "barrier_us": _time("us"),
    "task_ns": _time("ns"),
    "banks": NumberRange(0, 1024),
}
LIMITS = {
    "block_threads": NumberRange(1, 1 << 16),
    "block_registers": NumberRange(1, 1 << 24),
    "thread_registers": NumberRange(1, 4096),
    "block_shared_bytes": NumberRange(1, 1 << 32, "bytes"),
    "schedulers": NumberRange(1, 64),
    "unit_threads": NumberRange(1, 1 << 16),
    "unit_blocks": NumberRange(1, 4096),
    "unit_shared_bytes": NumberRange(1, 1 << 32, "bytes"),
    "bank_bytes": NumberRange(1, 1024, "bytes"),
    "transaction_bytes": NumberRange(1, 1 << 16, "bytes"),
    "unit_registers": NumberRange(1, 1 << 24),
    "sustained_gflops": _positive(1e9, "GFLOP/s", all_units=True),
    "matrix_gflops": _positive(1e9, "GFLOP/s", all_units=True),
    "thread_loads": NumberRange(1, 4096),
    "pipeline_cycles": NumberRange(1, 4096),
    "capability": NumberRange(30, 9999, "tenths"),
    "phase_ns": _time("ns"),
}
LEVELS = {
    "capacity": NumberRange(1, 1 << 50, "bytes"),
    "bandwidth": _positive(1e9, "GB/s", all_units=True),
    "line": NumberRange(1, 1 << 16, "bytes"),
    "latency": _time("ns"),
    "ways": NumberRange(1, 1024),
}
OF_ALL_UNITS = {"sustained_gflops": "unit_gflops", "matrix_gflops": "unit_matrix_gflops"}
# what a sheet says of all units together and a device of one
WITHIN = (
    ("block_threads", "unit_threads"),
    ("block_shared_bytes", "unit_shared_bytes"),
    ("thread_registers", "block_registers"),
)  # the first is at most the second, where both are there


def read_file(path: Path) -> Device:
    """Read a data sheet from a file; raise BadSheet if it is invalid."""
    shown = path.name
    if not path.is_file():
        _wrong(shown, "there is no such file")
    if path.stat().st_size > MOST_BYTES:
        _wrong(shown, f"a data sheet has at most {MOST_BYTES} bytes, this one more")
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as problem:
        raise BadSheet(f"{shown}: it cannot be read: {problem}", where=shown) from None
    return read_sheet(text, shown)


def read_sheet(text: str, where: str = "the data sheet") -> Device:
    """Return the device of a data sheet in TOML; bandwidths in it are of all units together.

    With `like = "v100"` it states only the differences.

    Raises:
        BadSheet: A number is missing, has another unit or is out of range.
    """
    try:
        sheet: Mapping[str, Any] = tomllib.loads(text)
    except Exception as problem:  # nesting that is too deep is no error of TOML's
        words = f"{type(problem).__name__}: {problem}"[:LONGEST]
        raise BadSheet(f"{where}: it is no TOML: {words}", where=where) from None
    sheet = _completed(sheet, where)
    _check(sheet, where)
    units = sheet["units"]["value"]
    return Device(
        name=sheet["name"],
        kind=sheet["kind"],
        target=sheet.get("target", ""),
        isa=_instruction_set(sheet),
        levels=tuple(_level(level, units) for level in sheet["levels"]),
        sources=tuple(_sources(sheet)),
        **{
            _field(name): _of_device(name, sheet[name]["value"], units)
            for name in _number_names(sheet)
        },
    )


def _instruction_set(sheet: Mapping[str, Any]) -> InstructionSet:
    """Return what code of a sheet's device is made for."""
    if (entry := sheet.get("instruction_set")) is None:
        return InstructionSet()
    return InstructionSet(entry["processor"], tuple(entry["features"]), entry["triple"])


def _field(name: str) -> str:
    """Return the name of the device's field for a number."""
    return OF_ALL_UNITS.get(name, name)


def _of_device(name: str, value: Any, units: int) -> Any:
    """Convert a figure of all units to that of one unit, where the device has the latter."""
    return value / units if name in OF_ALL_UNITS else value


def _completed(sheet: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Complete a sheet by the one that it is `like`."""
    if "like" not in sheet:
        return sheet
    like = sheet["like"]
    names = [p.name.removesuffix(".toml") for p in SHEETS.iterdir() if p.name.endswith(".toml")]
    if like not in names:
        _wrong(where, f"like is one of {', '.join(sorted(names))}, found {short(like)}")
    base = tomllib.loads((SHEETS / f"{like}.toml").read_text(encoding="utf-8"))
    own = {name: value for name, value in sheet.items() if name != "like"}
    for name in OF_ALL_UNITS:
        if "units" in own and name in base:
            base[name] = _of_other_units(base, name, own["units"])
    return {n: v for n, v in base.items() if n not in ("name", "title")} | own


def _of_other_units(base: Mapping[str, Any], name: str, units: Any) -> Any:
    """Scale a figure of all units to another number of units."""
    reached = base[name]
    count = units.get("value") if isinstance(units, dict) else None
    if not isinstance(count, int) or isinstance(count, bool):
        return reached  # what is wrong with it is told when it is checked
    value = reached["value"] * count / base["units"]["value"]
    return {**reached, "value": value, "source": f"{reached['source']}; as many a unit"}


def _number_names(sheet: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a sheet's numbers: all of `NUMBERS`, and its own of `LIMITS`."""
    return (*NUMBERS, *(name for name in LIMITS if name in sheet))


def _level(level: Mapping[str, Any], units: int) -> MemoryLevel:
    """Read a memory level."""
    capacity = level.get("capacity")
    return MemoryLevel(
        level["name"],
        None if capacity is None else capacity["value"],
        round(level["bandwidth"]["value"] / units, 3),
        level["line"]["value"],
        level["shared"],
        ways=level.get("ways", {}).get("value", 0),
        latency_ns=level.get("latency", {}).get("value", 0.0),
    )


def _sources(sheet: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the source of each number."""
    for name in _number_names(sheet):
        yield name, f"{sheet[name]['unit']}: {sheet[name]['source']}"
    for level in sheet["levels"]:
        for part in ("capacity", "bandwidth", "latency", "line", "ways"):
            if part in level:
                entry = level[part]
                yield f"{level['name']} {part}", f"{entry['unit']}: {entry['source']}"
    if entry := sheet.get("instruction_set"):
        yield "instruction set", entry["source"]
        yield "arithmetic", entry["arithmetic"]
        yield "costs", "cycles of kernels, fitted to a Zen 5 core: those of this one are unknown"


# What is checked


def _wrong(where: str, words: str) -> NoReturn:
    """Raise BadSheet."""
    raise BadSheet(f"{where}: {words}", where=where)


def _check(sheet: Mapping[str, Any], where: str) -> None:
    """Check every entry of a sheet."""
    keys = {"name", "aliases", "title", "kind", "target", "instruction_set", "levels"}
    _refuse_unknown(sheet, {*keys, *NUMBERS, *LIMITS}, where)
    _text(sheet, "name", where, NAME, NAME_WORDS)
    _text(sheet, "title", where)
    if sheet.get("kind") not in ("cpu", "gpu"):
        _wrong(where, f"kind is 'cpu' or 'gpu', found {short(sheet.get('kind'))}")
    if "target" in sheet:
        _text(sheet, "target", where, NAME, NAME_WORDS)
    _check_names(sheet.get("aliases", []), where)
    _check_instruction_set(sheet, where)
    for name, number in (NUMBERS | LIMITS).items():
        if name in sheet or name in NUMBERS:
            _number(sheet.get(name), number, f"{where}: {name}")
    if sheet["kind"] == "cpu" and sheet["units"]["value"] > MOST_CORES:
        _wrong(where, f"a CPU has at most {MOST_CORES} units, found {sheet['units']['value']}")
    for part, limit in WITHIN:
        if part in sheet and limit in sheet and sheet[part]["value"] > sheet[limit]["value"]:
            _wrong(where, f"{part} is more than {limit}")
    _check_levels(sheet.get("levels"), sheet["units"]["value"], where)


def _check_names(aliases: Any, where: str) -> None:
    """Check the other names of a sheet's device."""
    fits = isinstance(aliases, list) and len(aliases) <= MOST_ALIASES
    if not fits or not all(isinstance(a, str) and NAME.fullmatch(a) for a in aliases):
        _wrong(where, f"aliases are at most {MOST_ALIASES} short words, found {short(aliases)}")


def _check_instruction_set(sheet: Mapping[str, Any], where: str) -> None:
    """Check what code is made for; the target that cross-compiles needs it, others may not."""
    entry, at = sheet.get("instruction_set"), f"{where}: instruction_set"
    if entry is None:
        if sheet.get("target") == "llvm":
            _wrong(where, "the target 'llvm' needs an [instruction_set] with a triple")
        return
    if sheet["kind"] != "cpu":
        _wrong(at, "a GPU has none")
    if not isinstance(entry, dict):
        _wrong(at, f"it is a table, found {short(entry)}")
    names = {"triple", "processor", "features", "source", "arithmetic"}
    _refuse_unknown(entry, names, at)
    _text(entry, "triple", at, TRIPLE, "LLVM's name of a platform, such as wasm32-unknown-unknown")
    _text(entry, "processor", at, PROCESSOR, "LLVM's name of a processor, such as cortex-a76")
    _text(entry, "source", at)
    _text(entry, "arithmetic", at)
    features = entry.get("features")
    if (
        not isinstance(features, list)
        or len(features) > MOST_FEATURES
        or not all(isinstance(f, str) and FEATURE.fullmatch(f) for f in features)
    ):
        _wrong(at, f"features are such as '+neon' or '-sve', found {short(features)}")


def _check_levels(levels: Any, units: int, where: str) -> None:
    """Check the memory levels."""
    if not isinstance(levels, list) or not 2 <= len(levels) <= MOST_LEVELS:
        _wrong(where, f"levels are 2 to {MOST_LEVELS} memories, nearest first")
    for n, level in enumerate(levels):
        at = f"{where}: level {n + 1}"
        if not isinstance(level, dict):
            _wrong(at, f"it is a table, found {short(level)}")
        _refuse_unknown(level, {"name", "note", "shared", *LEVELS}, at)
        _text(level, "name", at, LEVEL, "a word like L1 or DRAM")
        if "note" in level:
            _text(level, "note", at)
        if not isinstance(level.get("shared"), bool):
            _wrong(at, f"shared is true or false, found {short(level.get('shared'))}")
        for name, number in LEVELS.items():
            if name in level or name in ("bandwidth", "line"):
                _number(level.get(name), number, f"{at}: {name}")
        if not round(level["bandwidth"]["value"] / units, 3):
            _wrong(at, "bandwidth: less than 0.0005 GB/s are left for each unit")
        if ("capacity" in level) != (n < len(levels) - 1):
            _wrong(at, "every memory has a capacity but the last, which holds everything")
    if levels[0]["shared"] or not levels[-1]["shared"]:
        _wrong(where, "the nearest memory is one unit's own, and the last is shared by all")
    names = [level["name"] for level in levels]
    if len(set(names)) < len(names):
        _wrong(where, f"two levels have one name: {', '.join(names)}")


def _refuse_unknown(table: Mapping[str, Any], names: set[str], where: str) -> None:
    """Refuse unknown keys."""
    for name in table:
        if name not in names:
            near = did_you_mean(name, names) or f"; the keys are {', '.join(sorted(names))}"
            _wrong(where, f"nothing is known as {short(name)}{near}")


def _number(entry: Any, number: NumberRange, where: str) -> None:
    """Check an entry for a number: value, unit and source."""
    if not isinstance(entry, dict):
        unit = f"{number.unit}, all units together" if number.all_units else number.unit or "..."
        form = f'{{ value = {number.example}, unit = "{unit}", source = "..." }}'
        _wrong(where, f"it is {form}, found {'nothing' if entry is None else short(entry)}")
    _refuse_unknown(entry, {"value", "unit", "source"}, where)
    value = entry.get("value")
    if not _fits(value, number):
        _wrong(where, f"it is {number}, found {short(value)}")
    for part in ("unit", "source"):
        _text(entry, part, where)
    if not entry["unit"].startswith(number.unit):
        _wrong(where, f"it is in {number.unit}, and the sheet says {short(entry['unit'])}")
    if number.all_units and "all units together" not in entry["unit"]:
        _wrong(where, f"it is in '{number.unit}, all units together', not {short(entry['unit'])}")


def _fits(value: Any, number: NumberRange) -> bool:
    """Return True if a value is in range."""
    kinds = (int,) if number.is_integer else (int, float)
    return type(value) in kinds and number.low <= value <= number.high


def _text(
    table: Mapping[str, Any],
    name: str,
    where: str,
    form: re.Pattern[str] | None = None,
    words: str = f"at most {LONGEST} printable characters",
) -> None:
    """Check a text."""
    value = table.get(name)
    fits = isinstance(value, str) and 0 < len(value) <= LONGEST and value.isprintable()
    if not fits or (form is not None and not form.fullmatch(str(value))):
        _wrong(where, f"{name} is {words}, found {short(value)}")


def short(value: object) -> str:
    """Format a value for a sentence, shortened if it is long."""
    if value is None:
        return "nothing"
    if isinstance(value, int) and value.bit_length() > 200:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
