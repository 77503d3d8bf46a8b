"""Measurement of the best control-flow schedules in complete runs; the fastest one is used.

Cocktailer (OSDI 2023) also chooses among the schedules of an operator by running them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import TypeAlias

from explorer.codegen.build import build
from explorer.devices.cpus import runs_on
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.grinder import BranchTask, LoopTask, UTask, control_schedules_of, task_tree
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import ControlDecision, ControlSchedule, MeasuredSchedule
from explorer.ir.decisions.decided import Decisions
from explorer.ir.program import Program
from explorer.measure.compare import measurement
from explorer.measure.this_machine.this_cpu import this_cpu
from explorer.measure.turns import take_turns
from explorer.passes.pipeline.progress import report_progress
from explorer.passes.pipeline.random_inputs import random_inputs
from explorer.rammer import Options as RammerOptions
from explorer.runtime.executable import Executable
from explorer.runtime.regions import is_dynamic

SECONDS = 0.25  # of each way
LEAST_GAIN_RATIO = 1.03  # of the model's first: less is not told apart by clocks; chosen
Run: TypeAlias = Callable[[], object]
Timer: TypeAlias = Callable[[Sequence[Run]], Sequence[float]]


def time_here(runs: Sequence[Run]) -> list[float]:
    """Measure each run in microseconds, in turns."""
    series = take_turns(runs, SECONDS * len(runs), perf_counter_ns)
    return [measurement(each).median_us for each in series]


@dataclass(frozen=True, slots=True)
class MeasureControlSchedules:
    """Pass that gives each loop and branch the fastest of its `count` best schedules.

    It replaces the model's first only if the gain is clear. Inputs are random. A program with a
    recursion, or with a loop that data or an input ends, keeps the model's choice: the length of
    such a run is unknown, even if one with other inputs was seen. Raises BadOption for a device
    that cannot run here.
    """

    device: Device
    count: int
    timer: Timer = time_here

    def __post_init__(self) -> None:
        """Raise BadOption if the device cannot run here."""
        if not runs_on(self.device, this_cpu()):
            name = self.device.name
            raise BadOption(
                f"grinder.measure times runs on this machine, which cannot run {name}",
                where="grinder.measure",
                try_="grinder.measure=0",
            )

    def __call__(self, program: Program) -> Program:
        """Return the program with measured schedules; the decisions list the times.

        Inner loops are measured first.
        """
        if not program.decisions.control or is_dynamic(program):
            return program
        codes = build(program, self.device)
        first = Executable(_unseen(program), codes, self.device)
        if first.planner.uncounted(first.plan(program.env.hints)):
            return program
        inputs = random_inputs(program, program.env.hints)
        inside = frozenset(_inside(first.tasks.parts, False))

        def run_of(decisions: Decisions) -> Run:
            """Return a function that runs the program under these decisions."""
            executable = Executable(replace(program, decisions=decisions), codes, self.device)
            return executable.prepared(inputs, executable.run(inputs))

        for number, decision in enumerate(program.decisions.control):
            report_progress(
                f"measure control-flow schedules: {decision.binding}",
                number,
                len(program.decisions.control),
            )
            fitting = (
                c
                for c in decision.candidates
                if not c.refused and _fits(c.value, decision.binding in inside)
            )
            single = dict[tuple[str, int], Candidate[ControlSchedule]]()
            for c in fitting:  # on which units one runs the plan says, which takes the first
                single.setdefault((c.value.level, c.value.unroll), c)
            tried = list(single.values())[: self.count]
            timed = decision.chosen.level != "both" and decision.kind != "group"
            if timed and len(tried) > 1:
                variants = [_with(program, replace(decision, chosen=c.value)) for c in tried]
                times = self.timer([run_of(p.decisions) for p in variants])
                program = _with(program, _measured(decision, tried, times))
        tree = task_tree(program, control_schedules_of(program.decisions))
        return replace(program, decisions=replace(program.decisions, tasks=tree))


def _unseen(program: Program) -> Program:
    """Return the program without profiles of earlier runs."""
    rammer = program.decisions.rammer
    if not isinstance(rammer, RammerOptions):
        return program
    blind = replace(program.decisions, rammer=replace(rammer, profile=None))
    return replace(program, decisions=blind)


def _fits(schedule: ControlSchedule, inside: bool) -> bool:
    """Return True if a schedule can be tried alone; loops inside the device program stay there."""
    return schedule.level == "device" or (schedule.level == "host" and not inside)


def _measured(
    decision: ControlDecision, tried: Sequence[Candidate[ControlSchedule]], times: Sequence[float]
) -> ControlDecision:
    """Return a decision with measured candidates first."""
    rows = [
        MeasuredSchedule(rank, c.value, c.cost_us, us)
        for rank, (c, us) in enumerate(zip(tried, times, strict=True), 1)
    ]
    ranked = sorted(rows, key=lambda row: row.measured_us)
    if rows[0].measured_us < LEAST_GAIN_RATIO * ranked[0].measured_us:
        ranked = [rows[0], *(row for row in ranked if row is not rows[0])]
    labels = {c.value: c.label for c in tried}
    times_text = ", ".join(f"{row.measured_us:,.1f} us {labels[row.schedule]}" for row in ranked)
    first = [c for row in ranked for c in tried if c.value == row.schedule]
    return replace(
        decision,
        chosen=ranked[0].schedule,
        candidates=(*first, *(c for c in decision.candidates if c not in first)),
        measured=tuple(ranked),
        reason=f"measured, a run: {times_text}",
    )


def _with(program: Program, decision: ControlDecision) -> Program:
    """Return the program with one decision replaced."""
    control = tuple(
        decision if d.binding == decision.binding else d for d in program.decisions.control
    )
    return replace(program, decisions=replace(program.decisions, control=control))


def _inside(parts: Sequence[UTask], in_program: bool) -> Iterator[str]:
    """Yield loops and branches inside others that are part of the device program."""
    for part in parts:
        if isinstance(part, LoopTask | BranchTask):
            if in_program:
                yield part.binding
            body = part.body if isinstance(part, LoopTask) else (*part.then, *part.orelse)
            yield from _inside(body, in_program or part.level == "device")
