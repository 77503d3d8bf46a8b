"""Tiles tried by hand in a session: the form, the broken rule or prediction, and the timing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from time import perf_counter_ns
from typing import Any

import numpy as np

from explorer.devices.model import Device
from explorer.errors import AnswerMismatch, BadOption
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.ir.kernel import Kernel
from explorer.ir.program import Binding
from explorer.measure.compare import Comparison, Measurement, comparison
from explorer.measure.one_kernel import Operands, PreparedKernel, prepare
from explorer.measure.this_cpu import this_cpu
from explorer.measure.turns import LEAST_TO_COMPARE, LONG_NS, Series, take_turns
from explorer.roller.alignment_report import answers
from explorer.roller.tiling_space import cut_axes
from explorer.roller.weigh_tiles import weigh
from explorer.tile.lowering.lower import tensor_contraction
from explorer.tuning.compare import agree
from explorer.tuning.tile_search import time_tiling
from widgets.draw.table import time_text
from widgets.model.house import House
from widgets.model.knobs import Setting, threads, tile_label
from widgets.model.picture import Times
from widgets.session.comparing import Rounds
from widgets.session.history import against
from widgets.session.jobs import Job, Jobs
from widgets.session.questions import item

BATCHES = 3  # of 20 rounds each; one where a run is long
MOST = 1 << 31
SWITCHES = ("pack", "depth_block")  # fields of a tile of one core, besides its sizes
MOST_SHOWN = 16  # candidates that the form offers
ALONE = 0.05  # seconds for a tile that is timed for the roofline


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel in normal form with the tile in use, on a device at a binding.

    `label` is the name that readers see.
    """

    binding: str
    label: str
    kernel: Kernel
    tiling: Tiling
    device: Device
    env: ShapeEnv
    sizes: Sizes
    threads: int

    @property
    def axes(self) -> tuple[tuple[str, int], ...]:
        """The axes that can be cut, outermost first, with their extents."""
        return tuple((a.name, evaluate_dim(a.extent, self.sizes)) for a in cut_axes(self.kernel))

    @property
    def contracts(self) -> bool:
        """True if there is a register tile to choose."""
        return any(tensor_contraction(self.kernel, c) for c in self.kernel.computes)


def fields_of(tiling: Tiling, s: Subject) -> dict[str, Any]:
    """Return a tiling as the fields of a form; an axis that is not cut has its extent."""
    inside = {name: getattr(tiling, name) for name in SWITCHES}
    tile = {axis: tiling.size(axis) or extent for axis, extent in s.axes}
    return {"tile": tile, "rows": tiling.micro.rows, "vectors": tiling.micro.vectors, **inside}


def tiling_of(form_fields: Mapping[str, Any], s: Subject) -> Tiling:
    """Return the tiling that a form describes.

    Fields that are missing are those of the tile in use. Raises BadOption for an invalid field.
    """
    if unknown := sorted(set(form_fields) - {"tile", "rows", "vectors", *SWITCHES}):
        raise BadOption(f"a tile has no field {unknown[0][:40]!r}")
    sizes = form_fields.get("tile", {})
    if not isinstance(sizes, Mapping):
        raise BadOption("the sizes of a tile are given by axis")
    extents = dict(s.axes)
    if strange := sorted(set(sizes) - set(extents)):
        have = ", ".join(extents) or "none"
        raise BadOption(f"{s.label} has no axis {str(strange[0])[:40]!r} to cut: it has {have}")
    has_static_extent = {
        name: isinstance(a.extent, int) for a in cut_axes(s.kernel) for name in (a.name,)
    }
    cut = tuple(
        (axis, size)
        for axis, extent in extents.items()
        if (size := _number(axis, sizes.get(axis, extent), 1)) < extent
        or not has_static_extent[axis]
    )
    used = s.tiling.micro
    rows = _number("rows", form_fields.get("rows", used.rows), 1)
    vectors = _number("vectors", form_fields.get("vectors", used.vectors), 1)
    inside = {
        f.name: _inside(f.name, form_fields.get(f.name, getattr(s.tiling, f.name)), f.default)
        for f in fields(Tiling)
        if f.name in SWITCHES
    }
    return Tiling(cut, Micro(rows, vectors, used.lanes), **inside)


def _inside(name: str, value: object, default: object) -> Any:
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise BadOption(f"{name} must be true or false, not {str(value)[:20]!r}", where=name)
        return value
    return _number(name, value, 0)


def _number(name: str, value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < MOST:
        problem = f"{name} is a whole number from {least}, not {str(value)[:20]!r}"
        raise BadOption(problem, where=name, expected=f"{least} or more", actual=str(value)[:20])
    return value


def judge_tiling(tiling: Tiling, s: Subject) -> Candidate[Tiling]:
    """Return the modelled time of a tiling, or the rule that it breaks with its numbers."""
    return weigh(s.kernel, tiling, s.device, s.env, s.sizes)


def rounds_of(s: Subject, tiling: Tiling) -> int:
    """Return the number of rounds of a timing, as the model predicts."""
    long = judge_tiling(tiling, s).cost_us * 1e3 > LONG_NS
    return LEAST_TO_COMPARE * (1 if long else BATCHES)


def timed(
    s: Subject, tiling: Tiling, job: Job, clock: Callable[[], int] = perf_counter_ns
) -> Comparison:
    """Time the tiling against the one in use, in turns on the same operands.

    `ratio` above 1 means that it is faster. Raises BadOption for an illegal tiling, AnswerMismatch
    if the two disagree, and Cancelled.
    """
    if why := judge_tiling(tiling, s).refused:
        raise BadOption(f"this tile of {s.label} is not legal: {why}", where=s.binding)
    operands = Operands(s.kernel, s.sizes)
    job.report(0)
    first, second = (
        prepare(s.kernel, t, operands, this_cpu(), s.threads, s.env) for t in (tiling, s.tiling)
    )
    job.report(0)
    _check(first, second, s.label)
    rounds = Rounds(job)
    works = (rounds.counted(first.launch, 0), rounds.counted(second.launch, 1))
    batches = [take_turns(works, 0.0, clock) for _ in range(job.of // LEAST_TO_COMPARE)]
    job.report(job.of)
    return comparison(_join_batches(batches, 0, first.runs), _join_batches(batches, 1, second.runs))


def _check(first: PreparedKernel, second: PreparedKernel, name: str) -> None:
    first.launch(1)
    ours: np.ndarray = first.output.copy()
    second.launch(1)
    if not agree(ours, second.output):
        raise AnswerMismatch(f"two tiles of {name} give different results", where=name)


def _join_batches(batches: list[tuple[Series, ...]], which: int, runs: int) -> Series:
    """Return all turns of one function, per run instead of per launch."""
    mine = [batch[which] for batch in batches]
    turns = [[time / runs for time in turn] for series in mine for turn in series.turns]
    return replace(mine[0], calls=mine[0].calls * runs, turns=turns)


Timer = Callable[[Subject, Tiling, Job], Comparison]
Key = tuple[str, str, tuple[tuple[str, int], ...], int]


class Bench:
    """One session's trials of tiles. Nothing here changes the setting on show."""

    def __init__(self, timer: Timer = timed) -> None:
        """Create a bench without timings; `timer` compares a tile with the one in use."""
        self.timer = timer
        self.jobs = Jobs()
        self.verdicts: dict[Key, dict[Tiling, dict[str, Any]]] = {}
        self.timings: dict[Key, dict[Tiling, Measurement]] = {}

    def times(self, now: Setting, binding: str) -> Times:
        """Return the timed tiles of a kernel under these sizes and threads."""
        return self.timings.get(_key(now, binding), {})

    def subject(self, now: Setting, house: House, op: int) -> Subject:
        """Return the kernel of an operator; raises BadOption if it has no editable tile."""
        mine, program = self._tiled(now, house, op), now.compiled.program
        decision = program.decisions.tiling(mine.name)
        if decision is None or decision.chosen.is_thread_block:
            problem = (
                f"{now.compiled.device.name} runs thread blocks, and none is made of a tile by hand"
            )
            raise BadOption(problem, where=mine.name, try_="the inspector's list of thread blocks")
        return Subject(
            mine.name,
            house.label(mine.name),
            mine.kernel_call.kernel,
            decision.chosen,
            now.compiled.device,
            program.env,
            {**program.env.hints, **dict(now.sizes)},
            threads(now.compiled),
        )

    def _tiled(self, now: Setting, house: House, op: int) -> Binding:
        """Return the kernel of an operator; raises BadOption if Roller did not tile it."""
        chosen = item(house.operators, op, "operator") if op >= 0 else None
        decisions = now.compiled.program.decisions
        for b in now.compiled.program.kernel_calls:
            if chosen and chosen.name in b.origin and decisions.tiling(b.name):
                return b
        what = f"{chosen.label} has no tile of its own" if chosen else "no operator is selected"
        raise BadOption(what, try_="select an operator that a kernel computes")

    def form(self, now: Setting, house: House, op: int) -> dict[str, Any]:
        """Return the editable fields, the tile in use, and the candidates with their verdicts."""
        mine = self._tiled(now, house, op)
        decision = now.compiled.program.decisions.tiling(mine.name)
        if decision is None or decision.chosen.is_thread_block:
            label, device = house.label(mine.name), now.compiled.device
            return {"kernel": label, "refusal": _not_here(device)}
        s = self.subject(now, house, op)
        weighed = decision.candidates
        key = _key(now, s.binding)
        tried = [t for t in self.verdicts.get(key, {}) if t not in [c.value for c in weighed]]
        shown = [*weighed[:MOST_SHOWN], *(judge_tiling(t, s) for t in tried)]
        return {
            "kernel": s.label,
            "device": s.device.name,
            "threads": s.threads,
            "axes": [[axis, extent] for axis, extent in s.axes],
            "lanes": s.tiling.micro.lanes,
            "contracts": s.contracts,
            "fields": fields_of(s.tiling, s),
            "candidates": [self._offered(c, s, key) for c in shown],
            "refusal": self._cannot_run(s),
        }

    def _offered(self, c: Candidate[Tiling], s: Subject, key: Key) -> dict[str, Any]:
        return {
            "label": tile_label(c),
            "fields": fields_of(c.value, s),
            "us": 0.0 if c.refused else c.cost_us,
            "refused": c.refused,
            "on": c.value == s.tiling,
            "said": self.verdicts.get(key, {}).get(c.value),
        }

    def _cannot_run(self, s: Subject) -> str:
        if s.device.is_this_cpu:
            return ""
        return _not_here(s.device)

    def judge(
        self, now: Setting, house: House, op: int, fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the model's prediction for a tile, or the rule that it breaks."""
        s = self.subject(now, house, op)
        tiling = tiling_of(fields, s)
        candidate = judge_tiling(tiling, s)
        if candidate.refused:
            return {"refused": candidate.refused}
        now_us = judge_tiling(s.tiling, s).cost_us
        change = f"{candidate.cost_us / now_us - 1:+.0%}" if now_us else "the same"
        prediction = f"predicted {time_text(candidate.cost_us)}, {change} against the one in use"
        return {
            "refused": "",
            "us": candidate.cost_us,
            "terms": [list(t) for t in candidate.terms],
            "said": "; ".join((prediction, *_not_aligned(s, tiling))),
        }

    def time_all(self, now: Setting, house: House, op: int) -> None:
        """Time every candidate of a kernel that can run here, one after another."""
        s = self.subject(now, house, op)
        decision = now.compiled.program.decisions.tiling(s.binding)
        if self._cannot_run(s) or decision is None:
            return
        timings = self.timings.setdefault(_key(now, s.binding), {})
        operands = Operands(s.kernel, s.sizes)
        for c in decision.candidates[:MOST_SHOWN]:
            if not c.refused and c.value not in timings:
                timings[c.value] = time_tiling(
                    s.kernel, c.value, s.device, s.sizes, s.threads, ALONE, s.env, operands
                )

    def start(
        self, now: Setting, house: House, op: int, fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Begin to time a tile against the one in use; raises BadOption if it is not legal."""
        s = self.subject(now, house, op)
        tiling = tiling_of(fields, s)
        if why := self._cannot_run(s) or judge_tiling(tiling, s).refused:
            raise BadOption(why, where=s.binding)
        key, of = _key(now, s.binding), rounds_of(s, tiling)

        def work(job: Job) -> dict[str, Any]:
            timing = self.timer(s, tiling, job)
            self.timings.setdefault(key, {}).update({s.tiling: timing.second, tiling: timing.first})
            words = against(timing, "the present tile") | {"us": timing.first.median_us}
            self.verdicts.setdefault(key, {})[tiling] = words
            return words

        return {"job": self.jobs.start(of, work), "of": of}


def _not_aligned(s: Subject, tiling: Tiling) -> list[str]:
    """Return the rules of alignment that a legal tile does not keep, with their numbers."""
    rule_results = answers(s.kernel, tiling, s.device, s.sizes)
    return [f"not aligned, {a.rule}: {a.text}" for a in rule_results if not a.holds]


def _key(now: Setting, binding: str) -> Key:
    return now.compiled.model.digest, binding, now.sizes, threads(now.compiled)


def _not_here(device: Device) -> str:
    """Return the reason why no tile can be tried."""
    return f"{device.name} is a data sheet: its times are predicted, nothing can be timed here"
