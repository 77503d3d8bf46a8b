"""File of a measured wall and its machine, to compare with a prediction elsewhere.

A recording is always shown as one. A file is hostile until it is checked: plain JSON, every number
of which is validated.
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
from explorer.ir.decisions.tiling import Chosen, Tiling, thread_block
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
    """Time of a call on all units: recorded and predicted."""

    call: str
    recorded_us: float
    predicted_us: float


@dataclass(frozen=True, slots=True, repr=False)
class RecordedRun(Printed):
    """One run of a model under one binding of its `sizes`.

    `digest` is that of the model, whatever it is compiled for. `machine` is a description in words,
    `day` a date such as "2026-11-28", or "" if the file has none. `blocks` are the thread blocks of
    each kernel call that ran on a GPU; older files have none.
    """

    model: str
    digest: str
    machine: str
    sizes: tuple[tuple[str, int], ...]
    wall: Wall
    day: str = ""
    blocks: tuple[tuple[str, tuple[Tiling, ...]], ...] = ()

    def __str__(self) -> str:
        """Return the recording in one line."""
        return self.words

    def of(self, digest: str) -> RecordedRun:
        """Return the recording if it is of that model; raise BadOption otherwise."""
        if digest != self.digest:
            raise BadOption(
                f"the recording is of another model than this one: of {self.model} as it was "
                f"then, with the digest {self.digest[:12]}",
                where=self.model,
                expected=digest[:12],
                actual=self.digest[:12],
            )
        return self

    def with_sizes_of(self, symbols: Collection[str]) -> RecordedRun:
        """Return the recording if it has a size for each symbol; raise SnapshotError otherwise."""
        sizes = dict(self.sizes)
        if missing := [name for name in symbols if name not in sizes]:
            raise SnapshotError(
                f"the recording of {self.model} does not say what {missing[0]} was",
                where=missing[0],
                expected=", ".join(symbols),
                actual=_text(sizes),
            )
        return self

    def under(self, sizes: Mapping[str, int]) -> RecordedRun:
        """Return the recording if it ran with these sizes; raise BadOption otherwise."""
        ran = dict(self.sizes)
        if other := {name: n for name, n in sizes.items() if ran.get(name, n) != n}:
            raise BadOption(
                f"the recording is of a run with {_text(ran)}, not with {_text(other)}",
                where=self.model,
                expected=_text(ran),
                actual=_text(other),
            )
        return self

    @property
    def words(self) -> str:
        """The recording in one line."""
        when = f", {self.day}" if self.day else ""
        return f"recording: {self.model} on {self.machine}{when}, {self.wall.total_us:,.1f} us"

    @property
    def title(self) -> str:
        """Name of its wall wherever it is shown: never "measured"."""
        return f"recorded on {self.wall.device}" + (f", {self.day}" if self.day else "")

    def is_of(self, device: Device) -> bool:
        """Return True if it ran on that device: a GPU by its name, this machine by its card."""
        if device.base is not None:
            return False
        if device.is_this_cpu:
            return self.machine == str(machine())
        return device.name in "".join(filter(str.isalnum, self.wall.device)).lower()

    def beside(self, predicted: Wall) -> tuple[CallTime, ...]:
        """Return the calls of both walls with their times, the longest recorded one first.

        A time is 0 if a wall lacks the call, since another device may have other kernels.
        """
        recorded, planned = _by_call(self.wall), _by_call(predicted)
        rows = (
            CallTime(n, recorded.get(n, 0.0), planned.get(n, 0.0))
            for n in dict.fromkeys([*recorded, *planned])
        )
        return tuple(sorted(rows, key=lambda c: (-c.recorded_us, -c.predicted_us)))


def _text(sizes: Mapping[str, int]) -> str:
    """Format sizes."""
    return ", ".join(f"{name} = {n}" for name, n in sorted(sizes.items())) or "no sizes"


def _by_call(wall: Wall) -> dict[str, float]:
    """Return the time of each call."""
    times: dict[str, float] = {}
    for b in wall.everything:
        times[b.call] = times.get(b.call, 0.0) + b.end_us - b.start_us
    return times


def recording(
    model: str,
    digest: str,
    machine: str,
    sizes: tuple[tuple[str, int], ...],
    wall: Wall,
    blocks: Chosen = MappingProxyType({}),
) -> RecordedRun:
    """Return a wall that was measured today as a recording, without its control-flow trace."""
    recorded_wall, ran = (
        replace(wall, kind=RECORDED, ran=(), trips=()),
        tuple(sorted(blocks.items())),
    )
    return RecordedRun(model, digest, machine, sizes, recorded_wall, date.today().isoformat(), ran)


def write(run: RecordedRun, path: Path) -> None:
    """Write a recording to a file atomically; equal recordings have equal files."""
    wall = run.wall
    names = list(dict.fromkeys((b.call, b.origin) for b in wall.everything))
    number = {key: n for n, key in enumerate(names)}

    def rows(bricks: tuple[Brick, ...]) -> list[list[float]]:
        """Return bricks as rows of numbers."""
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
        "blocks": [
            [name, [_block_text(b) for b in blocks_of_call]] for name, blocks_of_call in run.blocks
        ],
        "gaps": [[g.unit, g.start_us, g.end_us, CAUSES.index(g.cause)] for g in wall.gaps],
    }
    beside = path.with_name(f"{path.name}.part")  # who reads finds all of it or what was there
    beside.write_text(json.dumps(text, allow_nan=False), encoding="utf-8")
    beside.replace(path)


def _block_text(b: Tiling) -> dict[str, Any]:
    """Return a thread block as JSON values."""
    by_axis = {name: [list(pair) for pair in getattr(b, name)] for name in AXES}
    matrix = {MATRIX: list(b.matrix)} if b.matrix else {}  # as in files that know no other blocks
    return {"threads": b.threads, **by_axis, **matrix}


def _numbers(b: Brick) -> tuple[int, int, int, int]:
    """Return the integer fields of a brick."""
    return b.first, b.last, b.program, b.iteration


def shipped(model: str) -> dict[str, Path]:
    """Return the recordings of a model that come with Ironworks, by device name."""
    files = sorted(SHIPPED.glob("*.run.json"))
    return {p.name.split(".")[1]: p for p in files if p.name.split(".")[0] == model}


def read(path: Path) -> RecordedRun:
    """Read a recording; raise SnapshotError, which names the file, if it is invalid."""
    reader = _Reader(path.name)
    try:
        if path.exists() and not path.is_file():  # what is no file may have no end
            reader.wrong("it is no file")
        if path.stat().st_size > LARGEST_BYTES:
            reader.wrong("it is too large")
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        reader.wrong(f"it cannot be read: {type(problem).__name__}")
    return reader.run(content)


class _Reader:
    """Validating reader of a recording."""

    def __init__(self, name: str) -> None:
        """Read for a file of that name."""
        self.name = name

    def wrong(self, why: str) -> NoReturn:
        """Raise SnapshotError."""
        raise SnapshotError(f"{self.name} is no recording of a run: {why}", where=self.name)

    def run(self, content: Any) -> RecordedRun:
        """Read the recording."""
        if not isinstance(content, dict) or content.get("ironworks_recording") != VERSION:
            self.wrong(f"it is not of version {VERSION}")
        for name in TEXTS:
            value = content.get(name)
            if not isinstance(value, str) or not value.isprintable() or len(value) > LONGEST:
                self.wrong(f"{name} is a text of at most {LONGEST} printable characters")
        units = self.integer(content.get("units"), 1, MOST_UNITS, "units")
        total = self.time(content.get("total_us"), "total_us")
        calls = [self.call(c) for c in self.rows(content, "calls", 2)]
        cuts = content.get("cuts_us")
        sizes = [
            (str(name), self.integer(n, 0, 1 << 62, "a size"))
            for name, n in self.rows(content, "sizes", 2)
        ]
        wall = Wall(
            RECORDED,
            tuple(self.bricks(content, "bricks", calls, units, total)),
            tuple(self.gaps(content, units, total)),
            units,
            total,
            content["policy"],
            content["device"],
            tuple(self.time(c, "cuts_us") for c in (cuts if isinstance(cuts, list) else ())),
            tuple(self.bricks(content, "host", calls, units + 1, total)),
        )
        names = (content["model"], content["digest"], content["machine"])
        day, blocks = self.day(content.get("day", "")), tuple(self.blocks(content))
        return RecordedRun(*names, tuple(sizes), wall, day, blocks)

    def blocks(self, content: dict[str, Any]) -> Iterator[tuple[str, tuple[Tiling, ...]]]:
        """Yield the thread blocks; if a kernel can have such a block is checked elsewhere."""
        for name, each in self.rows(content, "blocks", 2) if "blocks" in content else ():
            if not isinstance(name, str) or not isinstance(each, list):
                self.wrong("blocks have the name of a call")
            if len(each) > MOST_BLOCKS:
                self.wrong(f"a call has at most {MOST_BLOCKS} blocks")
            yield name, tuple(self.block(b) for b in each)

    def block(self, content: Any) -> Tiling:
        """Read one thread block."""
        if not isinstance(content, dict) or content.keys() - {MATRIX} != {"threads", *AXES}:
            self.wrong(f"a block has threads, {', '.join(AXES)}")
        matrix = content.get(MATRIX, [])
        names = isinstance(matrix, list) and all(isinstance(a, str) for a in matrix)
        if not names or len(matrix) not in (0, 3):
            self.wrong(f"{MATRIX} is three axes, or none")
        by_axis = {
            part: tuple(
                (str(axis), self.integer(n, 1, 1 << 62, "a size of a block"))
                for axis, n in self.rows(content, part, 2)
            )
            for part in AXES
        }
        threads = self.integer(content["threads"], 1, 1 << 16, "threads")
        return thread_block(threads=threads, matrix=tuple(matrix), **by_axis)

    def day(self, text: Any) -> str:
        """Read the date."""
        try:
            return date.fromisoformat(text).isoformat() if text != "" else ""
        except (TypeError, ValueError):
            self.wrong("day is a date as in 2026-11-28")

    def rows(self, content: dict[str, Any], name: str, length: int) -> Iterator[list[Any]]:
        """Yield the rows of a list after checking their length."""
        rows = content.get(name)
        if not isinstance(rows, list):
            self.wrong(f"{name} is a list")
        for row in rows:
            if not isinstance(row, list) or len(row) != length:
                self.wrong(f"{name} has rows of {length}")
            yield row

    def call(self, row: list[Any]) -> tuple[str, frozenset[str]]:
        """Read a call's name and operators."""
        name, origin = row
        is_valid = isinstance(origin, list) and all(_is_name(o) for o in origin)
        if not _is_name(name) or not is_valid:
            self.wrong("calls have a name and operators")
        return name, frozenset(origin)

    def bricks(
        self,
        content: dict[str, Any],
        name: str,
        calls: list[tuple[str, frozenset[str]]],
        units: int,
        total: float,
    ) -> Iterator[Brick]:
        """Yield the bricks."""
        for unit, start, end, call, *integers in self.rows(content, name, 8):
            which, origin = calls[self.integer(call, 0, len(calls) - 1, "a task's call")]
            unit = self.integer(unit, 0, units - 1, "a task's unit")
            numbers = [self.integer(n, 0, 1 << 62, "a task") for n in integers]
            first, last, program, iteration = numbers
            times = self.span(start, end, total)
            yield Brick(unit, *times, which, first, last, origin, program, iteration)

    def gaps(self, content: dict[str, Any], units: int, total: float) -> Iterator[Gap]:
        """Yield the gaps."""
        for unit, start, end, cause in self.rows(content, "gaps", 4):
            unit = self.integer(unit, 0, units - 1, "a gap's unit")
            words = CAUSES[self.integer(cause, 0, len(CAUSES) - 1, "a gap's cause")]
            yield Gap(unit, *self.span(start, end, total), words)

    def span(self, start: Any, end: Any, total: float) -> tuple[float, float]:
        """Read a start and an end."""
        a, b = self.time(start, "a beginning"), self.time(end, "an end")
        if not a <= b <= total * (1 + 1e-9):
            self.wrong("something ends before it begins, or after the run")
        return a, b

    def integer(self, n: Any, low: int, high: int, what: str) -> int:
        """Read an integer within bounds."""
        if not isinstance(n, int) or isinstance(n, bool) or not low <= n <= high:
            self.wrong(f"{what} is a whole number from {low} to {high}")
        return n

    def time(self, us: Any, what: str) -> float:
        """Read a time."""
        if isinstance(us, bool) or not isinstance(us, int | float) or not 0 <= us < 1e15:
            self.wrong(f"{what} is a time in microseconds")
        if not isfinite(us):
            self.wrong(f"{what} is a time in microseconds")
        return float(us)


def _is_name(value: Any) -> bool:
    """Return True for a text that can be encoded: half of a surrogate pair cannot."""
    return isinstance(value, str) and not any("\ud800" <= x <= "\udfff" for x in value)
