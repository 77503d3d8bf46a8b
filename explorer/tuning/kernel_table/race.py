"""One row of the kernel table: answers compared, times taken in turns, and how near the roof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

from explorer.cached_property import cached_property
from explorer.errors import AnswerMismatch
from explorer.measure.compare import Comparison, Measurement, comparison, measurement
from explorer.measure.quiet import Watch
from explorer.measure.turns import Clock, Watcher, take_turns
from explorer.tuning.answers import TOLERANCE_SHARE, agree
from explorer.tuning.kernel_table.case import Case
from explorer.tuning.kernel_table.peers import Runner
from explorer.tuning.kernel_table.roofs import Roofs
from explorer.tuning.races.race import ALONE


@dataclass(frozen=True)
class Row:
    """An operator at a batch and a number of threads: our time, the others' against it, the roof.

    `read_bytes`, `written_bytes`: every operand once; a gather reads the rows that it selects.
    """

    case: Case
    roofs: Roofs
    read_bytes: int
    written_bytes: int
    ours: Measurement
    others: Mapping[str, Comparison]

    @property
    def fastest_other(self) -> str | None:
        """The other runtime of the least median time; None where none ran."""
        return min(self.others, key=lambda n: self.others[n].second.median_us, default=None)

    @property
    def versus(self) -> Comparison | None:
        """We against the fastest other."""
        return None if self.fastest_other is None else self.others[self.fastest_other]

    @cached_property
    def level(self) -> str:
        """The nearest memory level that holds all operands."""
        return self.roofs.level_of(self.read_bytes + self.written_bytes).level

    @cached_property
    def memory_us(self) -> float:
        """The least time that the bytes allow."""
        found = self.roofs.level_of(self.read_bytes + self.written_bytes)
        return found.floor_us(self.read_bytes, self.written_bytes)

    @property
    def compute_us(self) -> float:
        """The least time that the multiply-adds allow."""
        return self.case.operations / self.roofs.peak_gflops / 1e3

    @property
    def bound(self) -> str:
        """Which of the two is longer: "compute" or "memory"."""
        return "compute" if self.compute_us > self.memory_us else "memory"

    @property
    def percent_of_roof(self) -> float:
        """How much of our time the longer of the two floors is, in percent."""
        return 100 * max(self.compute_us, self.memory_us) / self.ours.median_us

    def to_json(self) -> dict[str, object]:
        """What the table prints of it."""
        o, versus = self.case.operator, self.versus
        return {
            "operator": o.name,
            "class": o.kind,
            "source": o.source,
            "shapes": [list(s) for s in (*o.shapes(self.case.batch), *o.weights)],
            "batch": self.case.batch,
            "threads": self.roofs.threads,
            "ours_us": _interval(self.ours),
            "others_us": {n: _interval(c.second) for n, c in self.others.items()},
            "fastest_other": self.fastest_other,
            "ratio": None if versus is None else versus.ratio,
            "ratio_low": None if versus is None else versus.low,
            "ratio_high": None if versus is None else versus.high,
            "verdict": ALONE if versus is None else versus.verdict,
            "gflop_per_s": self.case.operations / self.ours.median_us / 1e3,
            "gb_per_s": (self.read_bytes + self.written_bytes) / self.ours.median_us / 1e3,
            "level": self.level,
            "bound": self.bound,
            "percent_of_roof": self.percent_of_roof,
        }


def raced(
    case: Case,
    roofs: Roofs,
    ours: Runner,
    others: Sequence[Runner],
    seconds: float,
    clock: Clock = perf_counter_ns,
    watch: Watcher | None = None,
) -> Row:
    """The row of an operator; AnswerMismatch, before anything is timed, where a runtime differs
    beyond 1e-4 of the largest element.
    """
    answer = ours.answer()
    for other in others:
        if not agree(answer, other.answer()):
            name = f"{case.operator.name} at batch {case.batch}"
            raise AnswerMismatch(
                f"ironworks and {other.name} differ at {name}",
                where=name,
                expected=f"at most {TOLERANCE_SHARE:g} of the largest answer",
            )
    works = [r.run for r in (ours, *others)]
    first, *theirs = take_turns(works, seconds, clock, watch or Watch())
    found = {r.name: comparison(first, series) for r, series in zip(others, theirs, strict=True)}
    written = answer.nbytes
    return Row(case, roofs, _read_bytes(case, written), written, measurement(first), found)


def _read_bytes(case: Case, written: int) -> int:
    inputs = sum(x.nbytes for x in case.inputs.values())
    if case.operator.choices:
        return inputs + written
    if case.operator.op == "Slice":
        return written
    return inputs + sum(w.nbytes for w in case.weights.values())


def _interval(m: Measurement) -> dict[str, float]:
    return {"median": m.median_us, "low": m.low_us, "high": m.high_us}
