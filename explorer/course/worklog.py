"""Work log of a student: hypotheses, predictions, decisions, measurements and conclusions.

The log is a file of JSON lines. Each entry holds its own hash and the hash of the entry before it,
so an edit after the fact shows. A log that was written anew from the start does not show: the
teacher compiles and times it again (`explorer.course.rerun`) and asks about it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import IO, Any

from explorer.compiler.compilation import Compilation
from explorer.compiler.inputs import Inputs
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile
from explorer.course import prediction
from explorer.course.challenge import PLAIN, changed_options, read_options
from explorer.course.log_chain import (
    MOST_BYTES,
    MOST_ENTRIES,
    MOST_LINE,
    Chain,
    verify_bytes,
    verify_log,
)
from explorer.course.log_entry import (
    EVIDENCE,
    MOST_DEPTH,
    MOST_TEXT,
    VERSION,
    LogEntry,
    fault_of_values,
    hash_of,
    hashed_part,
    html,
    is_plain,
)
from explorer.errors import BadOption, SnapshotError
from explorer.ir.stage import Stage
from explorer.measure.compare import Comparison, Measurement
from explorer.measure.machine import machine
from explorer.ops.interpreter.frame import bind_sizes
from explorer.passes.fingerprint import program_key
from explorer.printed import Printed
from explorer.tuning.compare import compare

FILE = "worklog.jsonl"
TARGET = re.compile(r"[a-z0-9][a-z0-9_-]{0,60}", re.ASCII)  # a name and no path


class WorkLog(Printed):
    """A work log in a file; entries are appended and never replaced."""

    def __init__(self, path: str | Path = FILE) -> None:
        """Open the log of a file, or begin one. Raises SnapshotError if its chain is broken."""
        self.path = Path(path)
        self._compilations: dict[int, Compilation] = {}  # measured in this process, by entry
        if not self.entries:
            self._append("begin", "work log", {"version": VERSION})

    @property
    def entries(self) -> tuple[LogEntry, ...]:
        """Every entry of the file. Raises SnapshotError if the chain is broken."""
        if not self.path.exists() or not self.path.stat().st_size:
            return ()
        return _sound(verify_log(self.path), self.path)

    def hypothesis(self, text: str) -> LogEntry:
        """Write a claim that a measurement can refute."""
        return self._append("hypothesis", text, {})

    def decision(self, text: str, c: Compilation) -> LogEntry:
        """Write a choice and the program that it led to."""
        return self._append("decision", text, _compiled_fields(c))

    def measure(
        self,
        c: Compilation,
        inputs: Inputs,
        text: str = "",
        *,
        against: int | None = None,
        seconds: float = 1.0,
    ) -> LogEntry:
        """Measure a compilation, and compare it with an earlier measurement if there is one.

        `against` is the number of the earlier entry. By default it is the first measurement of the
        same model at the same sizes. The earlier compilation runs again in turns with this one: its
        recorded time is not used.

        Raises:
            BadOption: the earlier entry is no measurement of this model at these sizes, or its
                options are code and it was measured in another process.
        """
        arrays = c.named(inputs)
        sizes = dict(bind_sizes(c.model.program, arrays))
        earlier = self._earlier(c, sizes, against)
        values = _compiled_fields(c) | {"sizes": sizes}
        if earlier is None:
            values |= time_fields(c.time(arrays, seconds))
        else:
            base = self._compilations.get(earlier.n) or compile_again(c.model, earlier)
            values |= comparison_fields(compare(c, base, arrays, seconds), earlier.n)
        entry = self._append("measurement", text or c.first_line, values)
        self._compilations[entry.n] = c
        return entry

    def conclusion(self, text: str, evidence: Sequence[int]) -> LogEntry:
        """Write a conclusion and the numbers of the entries that it rests on.

        Raises:
            BadOption: there is no number, or an entry of that number is no evidence.
        """
        entries = {e.n: e.kind for e in self.entries}
        numbers = list(evidence)
        if not numbers:
            raise BadOption(
                "a conclusion names the entries that it rests on", try_="evidence=[3, 5]"
            )
        for number in numbers:
            if entries.get(number) not in EVIDENCE or isinstance(number, bool):
                raise BadOption(
                    f"entry {number} is no evidence: it is {entries.get(number, 'not in the log')}",
                    where=str(self.path),
                    expected=", ".join(EVIDENCE),
                )
        return self._append("conclusion", text, {"evidence": numbers})

    def what_if(self, text: str, c: Compilation) -> LogEntry:
        """Write a step of a what-if session and the program that it led to."""
        return self._append("what-if", text, _compiled_fields(c))

    def move(self, text: str) -> LogEntry:
        """Write a move in the history of a what-if session, such as an undo."""
        return self._append("move", text, {})

    def what_if_time(
        self, text: str, c: Compilation, sizes: Mapping[str, int], time: Measurement
    ) -> LogEntry:
        """Write the time of a step of a what-if session."""
        values = _compiled_fields(c) | {"sizes": dict(sizes)} | time_fields(time)
        return self._append("measurement", text, values)

    def what_if_comparison(
        self,
        text: str,
        c: Compilation,
        sizes: Mapping[str, int],
        comparison: Comparison,
        baseline: Compilation,
    ) -> LogEntry:
        """Write the comparison of a step with its baseline, after the baseline's own time."""
        key = program_key(baseline.program)
        same = [e for e in self.entries if _same_subject(e, baseline, sizes)]
        earlier = [e for e in same if e.fields["program"] == key]
        base = earlier or [self.what_if_time("baseline", baseline, sizes, comparison.second)]
        values = _compiled_fields(c) | {"sizes": dict(sizes)}
        values |= comparison_fields(comparison, base[0].n)
        return self._append("measurement", text, values)

    def write_event(self, line: Mapping[str, Any]) -> None:
        """Write a prediction or its result; other events of the course are left out."""
        if line["what"] in ("predicted", "revealed"):
            values = {
                name: value if is_plain(value, MOST_DEPTH) else str(value)[:MOST_TEXT]
                for name, value in line.items()
                if name not in ("time", "what", "about")
            }
            self._append(line["what"], line["about"], values)

    def _earlier(
        self, c: Compilation, sizes: Mapping[str, int], against: int | None
    ) -> LogEntry | None:
        """Return the measurement to compare with, or None for the first one of its model."""
        same = [e for e in self.entries if _same_subject(e, c, sizes)]
        if against is None:
            return same[0] if same else None
        entry = next((e for e in same if e.n == against), None)
        if entry is None:
            raise BadOption(
                f"entry {against} is no measurement of {c.model.name} at these sizes",
                where=str(self.path),
                expected=", ".join(str(e.n) for e in same) or "none so far",
            )
        return entry

    def _append(self, kind: str, text: str, values: Mapping[str, Any]) -> LogEntry:
        """Append an entry under a lock, after the chain so far was verified."""
        try:
            with _opened(self.path) as file:
                _lock(file)
                file.seek(0)
                data = file.read(MOST_BYTES + 1)
                entries = _sound(verify_bytes(data), self.path)
                if entries and kind == "begin":  # another kernel was first
                    return entries[0]
                entry = _next_entry(entries, kind, text, values)
                line = json.dumps(entry.plain).encode() + b"\n"
                _check_room(line, len(entries), len(data), self.path)
                file.write(line)
        except OSError as problem:
            raise BadOption(
                f"the work log {self.path} cannot be written: {problem.strerror}",
                where=str(self.path),
                try_="a file in a folder of yours",
            ) from problem
        return entry

    @property
    def last_hash(self) -> str:
        """The hash of the last entry: it stands for the complete log so far."""
        return self.entries[-1].hash

    def __str__(self) -> str:
        """Return every entry as lines of text."""
        return "\n".join(map(str, self.entries))

    def _repr_html_(self) -> str:
        """Return the log as a table in the colours of the notebook."""
        return html(self.entries)


def worklog(path: str | Path = FILE) -> WorkLog:
    """Open a work log, or begin one; predictions of this process are written into it from now on.

    Without a path it is `worklog.jsonl` in the notebook's folder.

    Raises:
        SnapshotError: the file is no work log, or its chain is broken.
        BadOption: it cannot be written.
    """
    log = WorkLog(path)
    prediction.listeners[:] = [log.write_event]
    return log


def compile_again(model: Any, entry: LogEntry) -> Compilation:
    """Compile a model with the options of an entry, for its target and to its stage.

    Raises:
        BadOption: an option is code, which a log cannot hold.
        SnapshotError: an option or the stage is invalid.
    """
    values = entry.fields
    if values["code"]:
        raise BadOption(
            f"entry {entry.n} cannot be compiled again: {values['code'][0]} is code",
            where=f"entry {entry.n}",
            try_="the notebook that defines it",
        )
    if not TARGET.fullmatch(values["target"]):
        raise SnapshotError(
            f"entry {entry.n} names no target of Ironworks: {values['target'][:40]!r}",
            where=f"entry {entry.n}",
        )
    options = replace(read_options(values["options"]), registered=Options().registered)
    if values["stage"] not in Stage.__members__:
        raise SnapshotError(
            f"entry {entry.n} names no stage: {values['stage']!r}",
            where=f"entry {entry.n}",
            expected=", ".join(Stage.__members__),
        )
    return compile(model, values["target"], options, until=Stage[values["stage"]])


def _compiled_fields(c: Compilation) -> dict[str, Any]:
    """Return program, model, target, stage, options and machine of a compilation."""
    options, code = _options_and_code(c.options)
    return {
        "program": program_key(c.program),
        "model": c.model.name,
        "digest": c.model.digest,
        "target": c.device.name,
        "stage": c.stage.name,
        "options": options,
        "code": code,
        "machine": str(machine()),
    }


def _options_and_code(options: Options) -> tuple[dict[str, Any], list[str]]:
    """Return the options that differ from the defaults, and the names of those that are code."""
    values: dict[str, Any] = {}
    code: list[str] = []
    for group in fields(Options):
        try:
            own = {group.name: getattr(options, group.name)}
            values |= changed_options(replace(PLAIN, **own))
        except BadOption as problem:
            code.append(problem.where)
    return json.loads(json.dumps(values)), code


def time_fields(time: Measurement) -> dict[str, Any]:
    """Return median, 99 % interval and number of calls."""
    return {"median_us": time.median_us, "low_us": time.low_us, "high_us": time.high_us} | {
        "runs": time.n
    }


def comparison_fields(comparison: Comparison, against: int) -> dict[str, Any]:
    """Return the time of the first function, and the ratio of the second's time to it."""
    return time_fields(comparison.first) | {
        "against": against,
        "against_us": comparison.second.median_us,
        "ratio": comparison.ratio,
        "low": comparison.low,
        "high": comparison.high,
        "verdict": comparison.verdict,
    }


def _same_subject(entry: LogEntry, c: Compilation, sizes: Mapping[str, int]) -> bool:
    """Return True for a measurement of the same model and target at the same sizes."""
    values = entry.fields
    return entry.kind == "measurement" and (
        values["digest"] == c.model.digest
        and values["target"] == c.device.name
        and values["sizes"] == dict(sizes)
    )


def _next_entry(
    entries: Sequence[LogEntry], kind: str, text: str, values: Mapping[str, Any]
) -> LogEntry:
    before = entries[-1].hash if entries else ""
    part = hashed_part(len(entries), round(time.time()), kind, text, dict(values), before)
    if fault := fault_of_values(part):
        raise BadOption(f"the entry cannot be written: {fault}", where=kind)
    return LogEntry(**part, hash=hash_of(part))


def _opened(path: Path) -> IO[bytes]:
    """Open a file to read and append; raise BadOption if it is a device, a folder or a pipe."""
    if path.exists() and not path.is_file():
        raise BadOption(f"{path} is no file", where=str(path), try_="the name of a file")
    return path.open("a+b")


def _check_room(line: bytes, entries: int, used_bytes: int, path: Path) -> None:
    """Raise BadOption if a log with this line could not be read any more."""
    full = entries >= MOST_ENTRIES or used_bytes + len(line) > MOST_BYTES
    if full or len(line) > MOST_LINE:
        raise BadOption(
            f"the work log {path} takes {MOST_ENTRIES:,} entries of {MOST_LINE >> 10} KiB, "
            f"{MOST_BYTES >> 20} MiB in all",
            where=str(path),
            try_="a shorter text, or another file",
        )


def _lock(file: IO[bytes]) -> None:
    """Wait for other processes that append to a file; where there are no locks, do nothing."""
    try:
        from fcntl import LOCK_EX, flock
    except ImportError:  # Windows
        return
    flock(file, LOCK_EX)


def _sound(chain: Chain, path: Path) -> tuple[LogEntry, ...]:
    """Return the entries of a chain; raise SnapshotError if it is broken."""
    if chain.fault:
        raise SnapshotError(
            f"{path}: {chain.fault}", where=str(path), try_="another file for a new log"
        )
    return chain.entries
