"""Measurement of Roller's best candidates on this machine; the fastest one is used.

Roller (OSDI 2022), section 4.3: the model constructs a few candidates, and the device decides.
Times are stored on disk under the kernel, its tiling, the device and the machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from explorer import cache as store
from explorer.cached_property import cached_property
from explorer.devices.cpus import runs_on
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import MeasuredTile, Tiling, TilingDecision
from explorer.ir.dims import ShapeEnv
from explorer.ir.dtypes import is_float
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical, renamed_tiling, text_of
from explorer.ir.program import Binding, Program
from explorer.measure.machine import machine
from explorer.measure.one_kernel import Operands, prepare
from explorer.measure.this_cpu import this_cpu
from explorer.process.allowance import cores
from explorer.process.cancellation import report_progress
from explorer.process.counters import counters

FORMAT = "measured-tile-3"
FOLDERS = ("codegen", "tile", "runtime", "ir", "ops")
TURNS, TURN_US = 4, 1000.0  # of each candidate; three launches a turn at least
LEAST_GAIN_RATIO = 1.03  # of the model's first: less is not told apart by clocks; chosen
Arrays: TypeAlias = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Question:
    """A kernel whose tilings are to be timed; `given` are the arrays that choose rows."""

    kernel: Kernel
    device: Device
    env: ShapeEnv
    row_indices: Arrays

    @cached_property
    def operands(self) -> Operands:
        """The arrays that all tilings run on, made for the first that needs measuring."""
        return Operands(self.kernel, self.env.hints, self.row_indices)

    def key(self, tiling: Tiling) -> str:
        """Return the key of a stored time, the same for all names that the kernel can have."""
        named, axes = canonical(self.kernel)
        parts = (text_of(named), repr(renamed_tiling(tiling, axes)), repr(self.env))
        rows = [store.content_key(a.tobytes()) for a in self.row_indices.values()]
        where = (repr(self.device), str(machine()), str(cores()), *rows)
        return store.content_key(FORMAT, store.code_key(*FOLDERS), *parts, *where)


Timer: TypeAlias = Callable[[Question, Sequence[Tiling]], Sequence[float]]


def time_here(question: Question, tilings: Sequence[Tiling]) -> list[float]:
    """Measure a run under each tiling on this machine, in microseconds.

    It uses as many threads as the device has units here. Tilings take turns, so that disturbances
    affect all of them.
    """
    threads = max(1, min(question.device.units, cores()))
    ready = []
    for n, tiling in enumerate(tilings):
        report_progress(f"measure tiles: compile for {question.kernel.name}", n, len(tilings))
        ready.append(
            prepare(
                question.kernel, tiling, question.operands, question.device, threads, question.env
            )
        )
    best = [float("inf")] * len(ready)
    for turn in range(TURNS):
        report_progress(f"measure tiles: time {question.kernel.name}", turn, TURNS)
        best = [
            min(us, prepared.best_us(TURN_US)) for us, prepared in zip(best, ready, strict=True)
        ]
    return best


@dataclass(frozen=True, slots=True)
class MeasureTiles:
    """Pass that gives every kernel the fastest of its `count` best candidates.

    It replaces the model's first only if the gain is clear. Kernels that are pinned by hand, that
    have one candidate, or that read integers which are not constants keep the model's choice: the
    values of the last are unknown before a run. Raises BadOption for a device that cannot run here.
    """

    device: Device
    count: int
    timer: Timer | None = None

    def __post_init__(self) -> None:
        """Raise BadOption if the device cannot run here."""
        if not runs_on(self.device, this_cpu()):
            name = self.device.name
            raise BadOption(
                f"roller.measure times tilings on this machine, which cannot run {name}",
                where="roller.measure",
                try_="roller.measure=0",
            )

    def __call__(self, program: Program) -> Program:
        """Return the program with measured tilings; the decisions list every time."""
        decided = {t.binding: t for t in program.decisions.tilings}
        calls = program.kernel_calls
        for n, binding in enumerate(calls):
            report_progress(f"measure tiles: {binding.name}", n, len(calls))
            decision = decided.get(binding.name)
            if decision is not None:
                decided[binding.name] = self._measured(program, binding, decision)

        def chosen(binding: Binding) -> Binding:
            """Return a binding with its measured tiling."""
            decision = decided.get(binding.name)
            if (
                not isinstance(binding.expr, KernelCall)
                or decision is None
                or not decision.measured
            ):
                return binding
            timed = replace(binding.expr, tiling=decision.chosen, efficient=decision.efficient)
            return replace(binding, expr=timed)

        functions = tuple(
            replace(f, body=tuple(chosen(b) for b in f.body)) for f in program.functions
        )
        left = replace(program.decisions, tilings=tuple(decided.values()))
        return replace(program, functions=functions, decisions=left)

    def _measured(
        self, program: Program, binding: Binding, decision: TilingDecision
    ) -> TilingDecision:
        """Return a decision with measured candidates first."""
        call = binding.kernel_call
        legal = [c for c in decision.candidates if not c.refused][: self.count]
        row_indices = _row_indices(program, call)
        if (
            decision.pinned
            or call.tiling != decision.chosen
            or len(legal) < 2
            or row_indices is None
        ):
            return decision
        question = Question(call.kernel, self.device, program.env, row_indices)
        times = self._times(question, [c.value for c in legal if isinstance(c.value, Tiling)])
        rows = [
            MeasuredTile(rank, c.value, c.cost_us, times[c.value])
            for rank, c in enumerate(legal, 1)
            if isinstance(c.value, Tiling)
        ]
        ranked = sorted(range(len(rows)), key=lambda n: rows[n].measured_us)
        if rows[0].measured_us < LEAST_GAIN_RATIO * rows[ranked[0]].measured_us:
            ranked = [0, *(n for n in ranked if n)]
        first = [legal[n] for n in ranked]
        others = [c for c in decision.candidates if c not in first]
        best = rows[ranked[0]].tiling
        measured = tuple(rows[n] for n in ranked)
        efficient = (
            decision.efficient if best == decision.chosen else None
        )  # whose work the clock did not see
        ordered = (*first, *others)
        return replace(
            decision, chosen=best, candidates=ordered, measured=measured, efficient=efficient
        )

    def _times(self, question: Question, tilings: Sequence[Tiling]) -> dict[Tiling, float]:
        """Return microseconds of each tiling, measuring those without a stored time."""
        keys = {tiling: question.key(tiling) for tiling in tilings}
        stored = {t: data for t, key in keys.items() if (data := store.get(key)) is not None}
        missing = [t for t in tilings if t not in stored]
        fresh = (self.timer or time_here)(question, missing) if missing else ()
        times = {t: float(json.loads(data)) for t, data in stored.items()}
        for tiling, us in zip(missing, fresh, strict=True):
            counters.add("tilings_measured")
            store.put(keys[tiling], json.dumps(us).encode(), "measurement")
            times[tiling] = us
        return {t: times[t] for t in tilings}


def _row_indices(program: Program, call: KernelCall) -> Arrays | None:
    """Return the constant integers that a call reads, or None if some are not constants."""
    indices = {}
    for name, arg in zip(call.kernel.inputs, call.args, strict=True):
        dtype = call.kernel.dtype(name)
        if is_float(dtype) or dtype == "bool":
            continue
        if arg.name not in program.constants:
            return None
        indices[name] = program.constants[arg.name].array
    return indices
