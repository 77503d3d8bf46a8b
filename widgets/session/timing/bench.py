"""Tiles tried by hand in a session: the form, its verdict, the timing, and earlier timings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.program import Binding
from explorer.measure.compare import Comparison, Measurement
from explorer.roller.alignment_report import answers
from explorer.tuning.kernel_timing import Operands, time_tiling
from widgets.draw.table import time_text
from widgets.model.house import House
from widgets.model.knobs import Setting, threads, tile_label
from widgets.model.on_show import Times
from widgets.session.questions import item
from widgets.session.timing import tuning
from widgets.session.timing.jobs import Job, Jobs
from widgets.session.timing.tuning import Subject
from widgets.session.verdict import against

Timer = Callable[[Subject, Tiling, Job], Comparison]
Key = tuple[str, str, tuple[tuple[str, int], ...], int]
MOST_SHOWN = 16  # candidates that the form offers
ALONE = 0.05  # seconds for a tile that is timed for the roofline


class Bench:
    """One session's trials of tiles. Nothing here changes the setting on show."""

    def __init__(self, timer: Timer = tuning.timed) -> None:
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
        if decision is None:
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
            if chosen and chosen.name in b.origin and decisions.rolled(b.name):
                return b
        what = f"{chosen.label} has no tile of its own" if chosen else "no operator is selected"
        raise BadOption(what, try_="select an operator that a kernel computes")

    def form(self, now: Setting, house: House, op: int) -> dict[str, Any]:
        """Return the editable fields, the tile in use, and the candidates with their verdicts."""
        mine = self._tiled(now, house, op)
        if now.compiled.program.decisions.tiling(mine.name) is None:
            label, device = house.label(mine.name), now.compiled.device
            return {"kernel": label, "refusal": _not_here(device)}
        s = self.subject(now, house, op)
        decision = now.compiled.program.decisions.tiling(s.binding)
        weighed = decision.candidates if decision else ()
        key = _key(now, s.binding)
        tried = [t for t in self.verdicts.get(key, {}) if t not in [c.value for c in weighed]]
        shown = [*weighed[:MOST_SHOWN], *(tuning.judge_tiling(t, s) for t in tried)]
        return {
            "kernel": s.label,
            "device": s.device.name,
            "threads": s.threads,
            "axes": [[axis, extent] for axis, extent in s.axes],
            "lanes": s.tiling.micro.lanes,
            "contracts": s.contracts,
            "fields": tuning.fields_of(s.tiling, s),
            "candidates": [self._offered(c, s, key) for c in shown if isinstance(c.value, Tiling)],
            "refusal": self._cannot_run(s),
        }

    def _offered(self, c: Candidate[Tiling], s: Subject, key: Key) -> dict[str, Any]:
        return {
            "label": tile_label(c),
            "fields": tuning.fields_of(c.value, s),
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
        tiling = tuning.tiling_of(fields, s)
        candidate = tuning.judge_tiling(tiling, s)
        if candidate.refused:
            return {"refused": candidate.refused}
        now_us = tuning.judge_tiling(s.tiling, s).cost_us
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
            if isinstance(c.value, Tiling) and not c.refused and c.value not in timings:
                timings[c.value] = time_tiling(
                    s.kernel, c.value, s.device, s.sizes, s.threads, ALONE, s.env, operands
                )

    def start(
        self, now: Setting, house: House, op: int, fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Begin to time a tile against the one in use; raises BadOption if it is not legal."""
        s = self.subject(now, house, op)
        tiling = tuning.tiling_of(fields, s)
        if why := self._cannot_run(s) or tuning.judge_tiling(tiling, s).refused:
            raise BadOption(why, where=s.binding)
        key, of = _key(now, s.binding), tuning.rounds_of(s, tiling)

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
