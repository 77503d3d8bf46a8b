"""Re-run of a work log on the teacher's machine: programs compared by hash, ratios by interval.

Times of different machines are not compared. A ratio of two programs that took turns on one machine
is compared with the ratio of the same two programs here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.compiler.compilation import Compilation
from explorer.course.log_entry import LogEntry, verdict_text
from explorer.course.worklog import comparison_fields, compile_again, time_fields
from explorer.errors import BadOption, IronworksError, SnapshotError
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.frontends.zoo import PREFIX
from explorer.measure.compare import checked_seconds
from explorer.measure.machine import machine
from explorer.passes.fingerprint import program_key
from explorer.plain_text import duration
from explorer.printed import Printed
from explorer.tuning.compare import compare

COMPILED = ("decision", "what-if", "measurement")
MOST_SIZE = 1 << 16  # of a symbol: inputs of a log's sizes are allocated here; chosen
SAME, ANOTHER = "same program", "another program"
CONFIRMED, OPEN, CONTRADICTED = "confirmed", "open", "contradicted"


@dataclass(frozen=True, slots=True, repr=False)
class Rerun(Printed):
    """An entry that was compiled again.

    `program` compares the programs, `claim` and `here` are the ratios, and `verdict` compares
    these. `reason` is why the entry was not compiled or measured again.
    """

    n: int
    program: str = ""
    same_machine: bool = False
    claim: str = ""
    here: str = ""
    verdict: str = ""
    reason: str = ""

    @property
    def refuted(self) -> bool:
        """True if the ratio is contradicted, or the program differs on the same machine."""
        return self.verdict == CONTRADICTED or (self.program == ANOTHER and self.same_machine)

    def __str__(self) -> str:
        """Return the comparison in one line."""
        if self.reason:
            return f"entry {self.n}: not run again: {self.reason}"
        words = self.program
        if self.program == ANOTHER and not self.same_machine:
            words += " (the log is of another machine or version)"
        if self.claim:
            words += f"; claimed {self.claim}; here {self.here}: {self.verdict}"
        elif self.here:
            words += f"; here {self.here}, without a ratio to compare"
        return f"entry {self.n}: {words}"


def rerun(
    entries: Sequence[LogEntry], models: Sequence[str] = (), seconds: float = 1.0
) -> tuple[Rerun, ...]:
    """Compile every program of a verified log again, and measure what the log measured.

    The model of an entry is `zoo:` and its name, or that of `models` which has its digest. Inputs
    are random, of the sizes in the log.

    Raises:
        IronworksError: one of `models` cannot be loaded.
    """
    checked_seconds(seconds)
    loaded = {model.digest: model for model in map(load, models)}
    compiled: dict[int, Compilation] = {}
    rows = []
    for entry in entries:
        if entry.kind in COMPILED:
            try:
                model = _model_of(entry, loaded)
                compiled[entry.n] = compile_again(model, entry)
                rows.append(_compared(entry, compiled, seconds))
            except IronworksError as problem:
                rows.append(Rerun(entry.n, reason=problem.sentence))
    return tuple(rows)


def _model_of(entry: LogEntry, loaded: dict[str, Model]) -> Model:
    """Return the model with the digest of an entry; raise BadOption if there is none."""
    digest, name = entry.fields["digest"], entry.fields["model"]
    if digest not in loaded:
        try:
            model = load(PREFIX + name)
        except IronworksError:
            model = None
        if model is None or model.digest != digest:
            raise BadOption(
                f"the model {name[:60]!r} of its digest is not in the zoo",
                where=f"entry {entry.n}",
                expected=digest,
                try_="--model and its file",
            )
        loaded[digest] = model
    return loaded[digest]


def _compared(entry: LogEntry, compiled: Mapping[int, Compilation], seconds: float) -> Rerun:
    """Compare an entry with its program, and its ratio with the ratio here."""
    c, values = compiled[entry.n], entry.fields
    program = SAME if program_key(c.program) == values["program"] else ANOTHER
    same_machine = values["machine"] == str(machine())
    if entry.kind != "measurement":
        return Rerun(entry.n, program, same_machine)
    inputs = c.random_inputs(_checked_sizes(entry))
    if "verdict" not in values:
        time = time_fields(c.time(inputs, seconds))
        return Rerun(entry.n, program, same_machine, here=duration(time["median_us"]))
    against = values["against"]
    if against not in compiled:
        raise BadOption(f"entry {against}, which it is compared with, was not compiled again")
    here = comparison_fields(compare(c, compiled[against], inputs, seconds), against)
    agreement = agreement_of(values, here)
    claim = verdict_text(values)
    return Rerun(entry.n, program, same_machine, claim, verdict_text(here), agreement)


def agreement_of(claim: Mapping[str, float], here: Mapping[str, float]) -> str:
    """Compare two verdicts on a ratio.

    "confirmed" if they are the same. If they differ: "open" if the intervals overlap, so a longer
    measurement has to decide, else "contradicted".
    """
    if claim["verdict"] == here["verdict"]:
        return CONFIRMED
    overlap = claim["low"] <= here["high"] and here["low"] <= claim["high"]
    return OPEN if overlap else CONTRADICTED


def _checked_sizes(entry: LogEntry) -> dict[str, int]:
    """Return the sizes of an entry; raise SnapshotError if one is too large to allocate."""
    sizes: dict[str, int] = entry.fields["sizes"]
    for name, size in sizes.items():
        if size > MOST_SIZE:
            raise SnapshotError(
                f"{name[:40]} is {size:,}, and a re-run takes sizes up to {MOST_SIZE:,}",
                where=f"entry {entry.n}",
            )
    return sizes
