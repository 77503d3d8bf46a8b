"""A measured wall in a file, with the card of the machine that it was measured on: what others can
open beside a prediction of the same program. It is always named as a recording.

A file is hostile until it is checked: plain JSON, of which every number is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from explorer.devices.model import Device
from explorer.errors import BadOption, SnapshotError
from explorer.ir.decisions.tiling import Block, Chosen
from explorer.ir.decisions.wall import CAUSES as IN_WORDS
from explorer.ir.decisions.wall import Brick, Gap, Wall
from explorer.measure.machine import machine
from explorer.printed import Printed

VERSION = 1
SHIPPED = Path(__file__).parent / "recordings"  # MODEL.DEVICE.run.json
LARGEST_BYTES = 256 << 20  # of a file: a bound on memory, chosen
MOST_UNITS = 1 << 16  # as a data sheet may have
RECORDED = "recorded"
CAUSES = tuple(IN_WORDS)  # by their numbers in a file
AXES = ("tile", "register", "shared", "parts")  # what of a block is by axis
MATRIX = "matrix"  # the axes of what whole warps multiply, in blocks that do
TEXTS = ("model", "digest", "machine", "policy", "device")
LONGEST = 1000  # characters of such a text: a card has some 250
MOST_BLOCKS = 16  # of a call, whose runs seldom have different ones: a bound on time, chosen


@dataclass(frozen=True, slots=True)
class CallTime:
    """What a call took of all units in a recording, and what it is predicted with."""

    call: str
    recorded_us: float
    predicted_us: float


@dataclass(frozen=True, slots=True, repr=False)
class RecordedRun(Printed):
    """One run of a model under one binding of its `sizes`. `digest` is that of the model, whatever
    it is compiled for; `machine` is a card in words, `day` as in "2026-11-28", or "" where a file
    has none. `blocks`: on a GPU the thread blocks of each kernel call that ran, none in a file that
    is older than they are in files.
    """

    model: str
    digest: str
    machine: str
    sizes: tuple[tuple[str, int], ...]
    wall: Wall
    day: str = ""
    blocks: tuple[tuple[str, tuple[Block, ...]], ...] = ()

    def __str__(self) -> str:
        return self.words

    def of(self, digest: str) -> RecordedRun:
        """The same, where it is of that model; BadOption else."""
        if digest != self.digest:
            raise BadOption(
                f"the recording is of another model than this one: of {self.model} as it was "
                f"then, with the digest {self.digest[:12]}",
                where=self.model,
                expected=digest[:12],
                found=self.digest[:12],
            )
        return self

    def with_sizes_of(self, symbols: Collection[str]) -> RecordedRun:
        """The same, where it says what each symbol was; SnapshotError else."""
        sizes = dict(self.sizes)
        if missing := [name for name in symbols if name not in sizes]:
            raise SnapshotError(
                f"the recording of {self.model} does not say what {missing[0]} was",
                where=missing[0],
                expected=", ".join(symbols),
                found=_text(sizes),
            )
        return self

    def under(self, sizes: Mapping[str, int]) -> RecordedRun:
        """The same, where it ran with these; BadOption else."""
        ran = dict(self.sizes)
        if other := {name: n for name, n in sizes.items() if ran.get(name, n) != n}:
            raise BadOption(
                f"the recording is of a run with {_text(ran)}, not with {_text(other)}",
                where=self.model,
                expected=_text(ran),
                found=_text(other),
            )
        return self

    @property
    def words(self) -> str:
        """In one line."""
        when = f", {self.day}" if self.day else ""
        return f"recording: {self.model} on {self.machine}{when}, {self.wall.total_us:,.1f} us"

    @property
    def said(self) -> str:
        """What its wall is called wherever it is shown: never "measured"."""
        return f"recorded on {self.wall.device}" + (f", {self.day}" if self.day else "")

    def is_of(self, device: Device) -> bool:
        """Return True if it ran on that device: a GPU by its name, this machine by its card."""
        if device.base is not None:
            return False
        if device.is_this_cpu:
            return self.machine == str(machine())
        return device.name in "".join(filter(str.isalnum, self.wall.device)).lower()

    def beside(self, predicted: Wall) -> tuple[CallTime, ...]:
        """The calls of both walls by what the recording has of them, the longest first; 0 where
        one has none, since another device may have other kernels.
        """
        recorded, planned = _by_call(self.wall), _by_call(predicted)
        found = (
            CallTime(n, recorded.get(n, 0.0), planned.get(n, 0.0))
            for n in dict.fromkeys([*recorded, *planned])
        )
        return tuple(sorted(found, key=lambda c: (-c.recorded_us, -c.predicted_us)))


def _text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {n}" for name, n in sorted(sizes.items())) or "no sizes"


def _by_call(wall: Wall) -> dict[str, float]:
    found: dict[str, float] = {}
    for b in wall.everything:
        found[b.call] = found.get(b.call, 0.0) + b.end_us - b.start_us
    return found


def recording(
    model: str,
    digest: str,
    machine: str,
    sizes: tuple[tuple[str, int], ...],
    wall: Wall,
    blocks: Chosen = MappingProxyType({}),
) -> RecordedRun:
    """A wall that was measured today as a recording; what its control flow did is left out."""
    kept, ran = replace(wall, kind=RECORDED, ran=(), trips=()), tuple(sorted(blocks.items()))
    return RecordedRun(model, digest, machine, sizes, kept, date.today().isoformat(), ran)


def write(run: RecordedRun, path: Path) -> None:
    """The file, in the place of what was there; equal runs have equal files."""
    wall = run.wall
    names = list(dict.fromkeys((b.call, b.origin) for b in wall.everything))
    number = {key: n for n, key in enumerate(names)}

    def rows(bricks: tuple[Brick, ...]) -> list[list[float]]:
        return [
            [b.unit, b.start_us, b.end_us, number[b.call, b.origin], *_numbers(b)] for b in bricks
        ]

    text = {
        "ironworks_recording": VERSION,
        "model": run.model,
        "digest": run.digest,
        "machine": run.machine,
        "day": run.day,
        "policy": wall.policy,
        "device": wall.device,
        "sizes": [[name, n] for name, n in run.sizes],
        "units": wall.units,
        "total_us": wall.total_us,
        "cuts_us": list(wall.cuts_us),
        "calls": [[name, sorted(origin)] for name, origin in names],
        "bricks": rows(wall.bricks),
        "host": rows(wall.host),
        "blocks": [[name, [_block_text(b) for b in found]] for name, found in run.blocks],
        "gaps": [[g.unit, g.start_us, g.end_us, CAUSES.index(g.cause)] for g in wall.gaps],
    }
    beside = path.with_name(f"{path.name}.part")  # who reads finds all of it or what was there
    beside.write_text(json.dumps(text, allow_nan=False), encoding="utf-8")
    beside.replace(path)


def _block_text(b: Block) -> dict[str, Any]:
    by_axis = {name: [list(pair) for pair in getattr(b, name)] for name in AXES}
    matrix = {MATRIX: list(b.matrix)} if b.matrix else {}  # as in files that know no other blocks
    return {"threads": b.threads, **by_axis, **matrix}


def _numbers(b: Brick) -> tuple[int, int, int, int]:
    return b.first, b.last, b.program, b.iteration


def shipped(model: str) -> dict[str, Path]:
    """The recordings of a model that come with Ironworks, by the name of their device."""
    found = sorted(SHIPPED.glob("*.run.json"))
    return {p.name.split(".")[1]: p for p in found if p.name.split(".")[0] == model}


def read(path: Path) -> RecordedRun:
    """What a file holds. Raises SnapshotError, which names the file, where it is no recording."""
    reader = _Reader(path.name)
    try:
        if path.exists() and not path.is_file():  # what is no file may have no end
            reader.wrong("it is no file")
        if path.stat().st_size > LARGEST_BYTES:
            reader.wrong("it is too large")
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        reader.wrong(f"it cannot be read: {type(problem).__name__}")
    return reader.run(found)


class _Reader:
    """Takes nothing for granted."""

    def __init__(self, name: str) -> None:
        self.name = name

    def wrong(self, why: str) -> NoReturn:
        raise SnapshotError(f"{self.name} is no recording of a run: {why}", where=self.name)

    def run(self, found: Any) -> RecordedRun:
        if not isinstance(found, dict) or found.get("ironworks_recording") != VERSION:
            self.wrong(f"it is not of version {VERSION}")
        for name in TEXTS:
            value = found.get(name)
            if not isinstance(value, str) or not value.isprintable() or len(value) > LONGEST:
                self.wrong(f"{name} is a text of at most {LONGEST} printable characters")
        units = self.whole(found.get("units"), 1, MOST_UNITS, "units")
        total = self.time(found.get("total_us"), "total_us")
        calls = [self.call(c) for c in self.rows(found, "calls", 2)]
        cuts = found.get("cuts_us")
        sizes = [
            (str(name), self.whole(n, 0, 1 << 62, "a size"))
            for name, n in self.rows(found, "sizes", 2)
        ]
        wall = Wall(
            RECORDED,
            tuple(self.bricks(found, "bricks", calls, units, total)),
            tuple(self.gaps(found, units, total)),
            units,
            total,
            found["policy"],
            found["device"],
            tuple(self.time(c, "cuts_us") for c in (cuts if isinstance(cuts, list) else ())),
            tuple(self.bricks(found, "host", calls, units + 1, total)),
        )
        names = (found["model"], found["digest"], found["machine"])
        day, blocks = self.day(found.get("day", "")), tuple(self.blocks(found))
        return RecordedRun(*names, tuple(sizes), wall, day, blocks)

    def blocks(self, found: dict[str, Any]) -> Iterator[tuple[str, tuple[Block, ...]]]:
        """Those of a file that has any; whether a kernel can have such a one is not known here."""
        for name, each in self.rows(found, "blocks", 2) if "blocks" in found else ():
            if not isinstance(name, str) or not isinstance(each, list):
                self.wrong("blocks have the name of a call")
            if len(each) > MOST_BLOCKS:
                self.wrong(f"a call has at most {MOST_BLOCKS} blocks")
            yield name, tuple(self.block(b) for b in each)

    def block(self, found: Any) -> Block:
        if not isinstance(found, dict) or found.keys() - {MATRIX} != {"threads", *AXES}:
            self.wrong(f"a block has threads, {', '.join(AXES)}")
        matrix = found.get(MATRIX, [])
        names = isinstance(matrix, list) and all(isinstance(a, str) for a in matrix)
        if not names or len(matrix) not in (0, 3):
            self.wrong(f"{MATRIX} is three axes, or none")
        by_axis = {
            part: tuple(
                (str(axis), self.whole(n, 1, 1 << 62, "a size of a block"))
                for axis, n in self.rows(found, part, 2)
            )
            for part in AXES
        }
        threads = self.whole(found["threads"], 1, 1 << 16, "threads")
        return Block(threads=threads, matrix=tuple(matrix), **by_axis)

    def day(self, text: Any) -> str:
        try:
            return date.fromisoformat(text).isoformat() if text != "" else ""
        except (TypeError, ValueError):
            self.wrong("day is a date as in 2026-11-28")

    def rows(self, found: dict[str, Any], name: str, length: int) -> Iterator[list[Any]]:
        rows = found.get(name)
        if not isinstance(rows, list):
            self.wrong(f"{name} is a list")
        for row in rows:
            if not isinstance(row, list) or len(row) != length:
                self.wrong(f"{name} has rows of {length}")
            yield row

    def call(self, row: list[Any]) -> tuple[str, frozenset[str]]:
        name, origin = row
        known = isinstance(origin, list) and all(_is_name(o) for o in origin)
        if not _is_name(name) or not known:
            self.wrong("calls have a name and operators")
        return name, frozenset(origin)

    def bricks(
        self,
        found: dict[str, Any],
        name: str,
        calls: list[tuple[str, frozenset[str]]],
        units: int,
        total: float,
    ) -> Iterator[Brick]:
        for unit, start, end, call, *rest in self.rows(found, name, 8):
            which, origin = calls[self.whole(call, 0, len(calls) - 1, "a task's call")]
            unit = self.whole(unit, 0, units - 1, "a task's unit")
            numbers = [self.whole(n, 0, 1 << 62, "a task") for n in rest]
            first, last, program, iteration = numbers
            times = self.span(start, end, total)
            yield Brick(unit, *times, which, first, last, origin, program, iteration)

    def gaps(self, found: dict[str, Any], units: int, total: float) -> Iterator[Gap]:
        for unit, start, end, cause in self.rows(found, "gaps", 4):
            unit = self.whole(unit, 0, units - 1, "a gap's unit")
            words = CAUSES[self.whole(cause, 0, len(CAUSES) - 1, "a gap's cause")]
            yield Gap(unit, *self.span(start, end, total), words)

    def span(self, start: Any, end: Any, total: float) -> tuple[float, float]:
        a, b = self.time(start, "a beginning"), self.time(end, "an end")
        if not a <= b <= total * (1 + 1e-9):
            self.wrong("something ends before it begins, or after the run")
        return a, b

    def whole(self, n: Any, low: int, high: int, what: str) -> int:
        if not isinstance(n, int) or isinstance(n, bool) or not low <= n <= high:
            self.wrong(f"{what} is a whole number from {low} to {high}")
        return n

    def time(self, us: Any, what: str) -> float:
        if isinstance(us, bool) or not isinstance(us, int | float) or not 0 <= us < 1e15:
            self.wrong(f"{what} is a time in microseconds")
        if not isfinite(us):
            self.wrong(f"{what} is a time in microseconds")
        return float(us)


def _is_name(value: Any) -> bool:
    """Whether it is a text that can be written: half of a surrogate pair cannot."""
    return isinstance(value, str) and not any("\ud800" <= x <= "\udfff" for x in value)
