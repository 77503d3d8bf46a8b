"""Predicted times of the schedules of each loop, branch and recursion, and the fastest.

Schedules of a loop are compared by a trip, those of a recursion by a call, at the sizes that tiles
are chosen for. Control flow inside of a loop or a recursion that is in the program is in the
program too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.errors import ShapeError
from explorer.grinder import (
    BranchTask,
    ControlSchedules,
    LoopTask,
    RecursionTask,
    UTask,
    on_host,
)
from explorer.grinder import Options as GrinderOptions
from explorer.grinder.loops import refusal
from explorer.grinder.model import operators_of
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import COST_UNITS, ControlDecision, ControlSchedule
from explorer.ir.dims import Sizes
from explorer.ir.program import Program
from explorer.rammer import Options as RammerOptions
from explorer.runtime.planning.control_costs import AssumedCosts, Control, ControlCosts, Time
from explorer.runtime.planning.schedule_times import Crossing, CrossingConstants, ScheduleTime
from explorer.runtime.planning.task_times import TaskTimes
from explorer.runtime.planning.unit_assignment import UNCOUNTED_TRIPS

HOST, DEVICE = ControlSchedule("host"), ControlSchedule("device")
FROM_PYTHON = ("host", "eager")
MOST_TIME_SHARE = 0.97  # of single trips' time: less gain is not worth a longer program; chosen
MOST_OPERATORS = 1024  # of a turn to compare: a bound on search time, chosen
Weighed = Candidate[ControlSchedule]
KINDS = {LoopTask: "loop", BranchTask: "branch", RecursionTask: "call"}


def decisions(
    program: Program, device: Device, options: GrinderOptions
) -> Iterator[ControlDecision]:
    """Yield a decision for each loop, branch and recursion; none if only a run knows the sizes."""
    try:
        selector = _selector(program, device, options, program.env.hints)
        if selector is not None:
            yield from selector.decisions()
    except ShapeError:  # only a run knows the sizes
        return


def crossings(
    program: Program,
    device: Device,
    options: GrinderOptions,
    sizes: Sizes,
    supposed: AssumedCosts = AssumedCosts(),
) -> tuple[Crossing, ...]:
    """Return the crossing points of each loop's schedules, inner loops first.

    Return none if only a run knows the sizes. All schedules that the options let "auto" compare are
    there, whichever they request.
    """
    try:
        selector = _selector(program, device, replace(options, schedule="auto"), sizes, supposed)
        if selector is None:
            return ()
        for _ in selector.decisions():
            continue
    except ShapeError:
        return ()
    base, chosen = selector.base, {d.binding: d.chosen for d in program.decisions.control}
    device_source = dict(device.sources).get("launch_us", "") or f"of {device.name}"
    source = "measured in runs of this program" if base.profiled else device_source
    if supposed != AssumedCosts():
        source = "supposed"
    constants = CrossingConstants(base.again_us, base.barrier_us, source, device.python)
    return tuple(
        Crossing(
            part.binding,
            schedules,
            chosen.get(part.binding),
            base.host.trip_count(part),
            base.symbol(part),
            constants,
            tuple(sorted(part.origin)),
        )
        for part in base.control.values()
        if isinstance(part, LoopTask) and (schedules := selector.loops.pop(part.binding, ()))
    )


def _selector(
    program: Program,
    device: Device,
    options: GrinderOptions,
    sizes: Sizes,
    supposed: AssumedCosts = AssumedCosts(),
) -> _Selector | None:
    """Return the selector; None for a program without control flow.

    Raises:
        ShapeError: Only a run knows the sizes.
    """
    if not any(b.calls for _, b in program.bindings()):
        return None
    rammer = program.decisions.rammer
    laid = rammer if isinstance(rammer, RammerOptions) else RammerOptions()
    if not isinstance(laid.policy, str):
        laid = replace(laid, policy=RammerOptions().policy)
    times = TaskTimes(program, {}, device, laid.profile, laid.threads or device.units)

    def tree(schedules: ControlSchedules) -> ControlCosts:
        return ControlCosts(program, device, laid, times, schedules, sizes, supposed)

    base = tree(ControlSchedules())
    return _Selector(base, tree, options) if base.control else None


@dataclass(frozen=True, slots=True)
class _Alternatives:
    """The candidates of one loop, branch or recursion, and the time of an entry by the best ones.

    These are the best of all, and the best that stays in the program. `assumption`: what was
    assumed.
    """

    part: Control
    candidates: tuple[Weighed, ...]
    best: tuple[ControlSchedule, Time]
    in_program: tuple[ControlSchedule, Time] | None
    assumption: str = ""


class _Selector:
    """Comparison of the schedules of a program's control flow."""

    def __init__(
        self,
        base: ControlCosts,
        make: Callable[[ControlSchedules], ControlCosts],
        options: GrinderOptions,
    ) -> None:
        self.base, self.options = base, options
        self.host = make(ControlSchedules(on_host, apart=options.schedule == "eager"))
        loops = [p for p in base.control.values() if isinstance(p, LoopTask)]
        refusals = {loop.binding: self.unroll_refusal(loop) for loop in loops}
        self.refusals = refusals
        factors = self.turns if not all(refusals.values()) else ()
        self.unrolled = {turn: make(ControlSchedules(turn=turn)) for turn in factors}
        self.alternatives: dict[str, _Alternatives] = {}
        self.loops: dict[str, tuple[ScheduleTime, ...]] = {}

    @property
    def turns(self) -> tuple[int, ...]:
        """The unroll factors to compare."""
        most = self.options.unroll
        if self.options.schedule == "unrolled":
            return (most,) if most > 1 else ()
        powers = tuple(1 << n for n in range(1, most.bit_length()) if 1 << n <= most)
        return powers if self.options.schedule == "auto" else ()

    def unroll_refusal(self, loop: LoopTask) -> str:
        """Return why a loop cannot be unrolled."""
        if loop.level == "host":
            return loop.reason
        if loop.binding in self.base.framed:
            return "it is in a recursion, whose calls are short"
        states = {c.param: c.result for c in loop.carried}
        return refusal(loop.body, loop.trip, loop.checked, states, self.base.tasks.values)

    def decisions(self) -> Iterator[ControlDecision]:
        for part in self.base.control.values():
            if part.binding not in self.alternatives:
                self.alternatives[part.binding] = self.alternatives_of(part)
        inside = frozenset(self.inside(self.base.tasks.parts, False))
        for binding, alternatives in self.alternatives.items():
            chosen, _ = alternatives.best
            if binding in inside and alternatives.in_program is not None:
                chosen, _ = alternatives.in_program
            first = [w for w in alternatives.candidates if w.value == chosen]
            others = sorted(
                (w for w in alternatives.candidates if w.value != chosen), key=lambda w: w.cost_us
            )
            kind = KINDS[type(alternatives.part)]
            reason = self.reason(alternatives, chosen, binding in inside)
            yield ControlDecision(binding, kind, chosen, (*first, *others), reason)
        for name, candidates in self.base.group_candidates():
            costs = [f"{1000 * w.cost_us:,.0f} ns {w.label}" for w in candidates if not w.refused]
            reason = f"predicted per entry: {', '.join(costs)}"
            yield ControlDecision(name, "group", candidates[0].value, candidates, reason)

    def reason(self, alternatives: _Alternatives, chosen: ControlSchedule, inside: bool) -> str:
        if alternatives.in_program is None:
            return alternatives.part.reason
        if self.options.schedule != "auto":
            refusal = self.refusals.get(alternatives.part.binding, "")
            but = f", and {refusal}" if refusal and self.options.schedule == "unrolled" else ""
            return f"grinder.schedule is {self.options.schedule}{but}"
        if chosen != alternatives.best[0] and inside:
            return "the control flow around it is in the program"
        costs = [
            f"{1000 * w.cost_us:,.0f} ns {w.label}"
            for w in alternatives.candidates
            if not w.refused
        ]
        unit = COST_UNITS[KINDS[type(alternatives.part)]]
        assumed = f"; {alternatives.assumption}" if alternatives.assumption else ""
        return f"predicted per {unit}: {', '.join(costs)}{assumed}"

    def inside(self, parts: Sequence[UTask], in_program: bool) -> Iterator[str]:
        """Yield the bindings of control flow nested in other control flow in the program."""
        for part in parts:
            if isinstance(part, LoopTask | BranchTask | RecursionTask):
                if in_program:
                    yield part.binding
                here = in_program or self.alternatives[part.binding].best[0].level != "host"
                if isinstance(part, BranchTask):
                    yield from self.inside((*part.then, *part.orelse), here)
                else:
                    yield from self.inside(part.body, here)

    def alternatives_of(self, part: Control) -> _Alternatives:
        match part:
            case LoopTask():
                return self.loop(part)
            case BranchTask():
                return self.branch(part)
            case RecursionTask():
                return self.recursion(part)

    def in_program(self, part: Control) -> Time:
        alternatives = self.alternatives[part.binding]
        return (alternatives.in_program or alternatives.best)[1]

    def best_time(self, part: Control) -> Time:
        return self.alternatives[part.binding].best[1]

    def schedule_times(self, loop: LoopTask) -> tuple[ScheduleTime, ...]:
        """Return a loop's schedules: on the host, then in the program, then unrolled."""
        (hosted,) = self.host.loops(loop.binding)
        on_host = self.host.trip_on_host(hosted, self.best_time)
        times = [ScheduleTime("on the host", HOST, Time(), on_host, on_host)]
        if loop.level == "host":
            return (*times, ScheduleTime("in the program", DEVICE, refused=loop.reason))
        entered, turn_time = self.base.entry(loop), self.base.turn(loop, self.in_program)
        schedule, label_end = _unit_schedule(self.base, loop)
        times.append(
            ScheduleTime(f"in the program{label_end}", schedule, entered, turn_time, turn_time)
        )
        refusal_reason = self.refusals[loop.binding]
        if refusal_reason and self.turns:
            times.append(
                ScheduleTime(
                    "unrolled", ControlSchedule("device", self.turns[0]), refused=refusal_reason
                )
            )
        for turn, tree in self.unrolled.items() if not refusal_reason else ():
            schedule, reason = ControlSchedule("device", turn), ""
            size = turn * sum(1 for _ in operators_of(loop.body))
            if self.options.schedule == "auto" and size > MOST_OPERATORS:
                reason = f"a turn would be {size:,} kernels, more than {MOST_OPERATORS:,}"
            first, *remainders = tree.loops(loop.binding)
            own, label_end = _unit_schedule(tree, first, turn)
            if not reason and first.turn < turn:
                reason = f"it makes {self.base.host.trip_count(loop)} trips"
            if reason:
                times.append(ScheduleTime(f"unrolled by {turn}", schedule, refused=reason))
                continue
            before, turned = tree.entry(first), tree.turn(first, self.in_program)
            label = f"unrolled by {turn}{label_end}"
            times.append(ScheduleTime(label, own, before, turned, turn_time, not remainders))
        return tuple(times)

    def loop(self, loop: LoopTask) -> _Alternatives:
        """Return a loop's candidates by a trip."""
        trips = self.base.host.trip_count(loop)
        count = UNCOUNTED_TRIPS if trips is None else max(0, trips)
        by_schedule = {w.schedule: w for w in self.schedule_times(loop)}
        self.loops[loop.binding] = tuple(by_schedule.values())
        times = {schedule: w.each(trips) for schedule, w in by_schedule.items() if not w.refused}
        candidates = tuple(
            Candidate(
                w.label,
                schedule,
                times[schedule].terms if schedule in times else (),
                refused=w.refused,
            )
            for schedule, w in by_schedule.items()
        ) + tuple(_on_other_units(self.base, loop, count))
        on_host = times.pop(HOST)
        if loop.level == "host":
            return _Alternatives(loop, candidates, (HOST, on_host.times(count)), None)
        best = self.pick(times)
        host_time = on_host.times(count)
        in_program = best, by_schedule[best].entry + times[best].times(count)
        if self.options.schedule in FROM_PYTHON:
            return _Alternatives(loop, candidates, (HOST, host_time), in_program)
        if self.options.schedule == "auto" and on_host.us < times[best].us:
            return _Alternatives(loop, candidates, (HOST, host_time), in_program)
        return _Alternatives(loop, candidates, in_program, in_program)

    def pick(self, times: Mapping[ControlSchedule, Time]) -> ControlSchedule:
        """Return the best schedule in the program."""
        single = next(w for w in times if w.unroll == 1)
        turned = [w for w in times if w.unroll > 1]
        if self.options.schedule == "unrolled":
            return turned[0] if turned else single
        least = min(times, key=lambda w: times[w].us)
        return least if times[least].us < MOST_TIME_SHARE * times[single].us else single

    def branch(self, branch: BranchTask) -> _Alternatives:
        """Return a branch's candidates by a decision."""
        hosted = self.host.branch_time_on_host(self.host.branch(branch.binding), self.best_time)
        candidates = [Candidate("on the host", HOST, hosted.terms)]
        if branch.level == "host":
            candidates.append(Candidate("in the program", DEVICE, refused=branch.reason))
            return _Alternatives(branch, tuple(candidates), (HOST, hosted), None)
        decided = self.base.branch_time(branch, self.in_program)
        schedule, label_end = _unit_schedule(self.base, branch)
        candidates.append(Candidate(f"in the program{label_end}", schedule, decided.terms))
        candidates += _on_other_units(self.base, branch)
        least = (schedule, decided)
        to_host = self.options.schedule in FROM_PYTHON or (
            self.options.schedule == "auto" and hosted.us < decided.us
        )
        return _Alternatives(branch, tuple(candidates), (HOST, hosted) if to_host else least, least)

    def recursion(self, recursion: RecursionTask) -> _Alternatives:
        """Return a recursion's candidates by a call.

        Control flow in a call is in the program with it.
        """
        calls, source = self.base.calls(recursion)
        called = self.base.call_time(recursion, self.in_program)
        hosted = self.base.call_time_on_host(recursion, self.in_program)
        in_program = self.base.units_of(recursion)
        candidates = (
            Candidate("on the host", HOST, hosted.terms),
            *(in_program or (Candidate("in the program", DEVICE, called.terms),)),
        )
        least = candidates[1].value, called.times(calls)
        if self.options.schedule in FROM_PYTHON:
            return _Alternatives(recursion, candidates, (HOST, hosted.times(calls)), least, source)
        return _Alternatives(recursion, candidates, least, least, source)


def _unit_schedule(tree: ControlCosts, part: Control, turn: int = 1) -> tuple[ControlSchedule, str]:
    """Return the schedule in the program of a loop or branch, and the end of its label."""
    calls = tree.unit_mode(part)
    return ControlSchedule("device", turn, calls), ", one unit" if calls else ""


def _on_other_units(tree: ControlCosts, part: Control, trips: int = 1) -> Iterator[Weighed]:
    for candidate in tree.other_units(part, trips):
        schedule = ControlSchedule("device", calls=candidate.value)
        yield Candidate(
            f"in the program, {candidate.label}", schedule, candidate.terms, candidate.refused
        )
