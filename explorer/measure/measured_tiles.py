"""Roller's best candidates compiled and timed on this machine; the fastest measured one is taken.

Roller (OSDI 2022), section 4.3: the model constructs a few candidates, and the device has the last
word. Times are kept on disk under the kernel, its tiling, the device and the machine's card.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from explorer import cache as store
from explorer.allowance import cores
from explorer.cached_property import cached_property
from explorer.counters import counters
from explorer.devices.cpus import runs_on
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import MeasuredTile, Tiling, TilingDecision
from explorer.ir.dtypes import is_float
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical, renamed_tiling, text_of
from explorer.ir.program import Binding, Program
from explorer.ir.shapes.dims import ShapeEnv
from explorer.measure.machine import machine
from explorer.measure.this_machine.one_kernel import Operands, prepare
from explorer.measure.this_machine.this_cpu import this_cpu
from explorer.passes.pipeline.progress import told

FORMAT = "measured-tile-3"
FOLDERS = ("codegen", "tile", "runtime", "ir", "ops")
TURNS, TURN_US = 4, 1000.0  # of each candidate; three launches a turn at least
LEAST_GAIN_RATIO = 1.03  # of the model's first: less is not told apart by clocks; chosen
Arrays: TypeAlias = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Question:
    """How long a kernel takes under a tiling; `given` are the arrays that choose rows."""

    kernel: Kernel
    device: Device
    env: ShapeEnv
    given: Arrays

    @cached_property
    def operands(self) -> Operands:
        """The arrays that all tilings run on, made for the first that is not known."""
        return Operands(self.kernel, self.env.hints, self.given)

    def key(self, tiling: Tiling) -> str:
        """What a time is kept under: the same for every name that the kernel can have."""
        named, axes = canonical(self.kernel)
        parts = (text_of(named), repr(renamed_tiling(tiling, axes)), repr(self.env))
        rows = [store.content_key(a.tobytes()) for a in self.given.values()]
        where = (repr(self.device), str(machine()), str(cores()), *rows)
        return store.content_key(FORMAT, store.code_key(*FOLDERS), *parts, *where)


Timer: TypeAlias = Callable[[Question, Sequence[Tiling]], Sequence[float]]


def time_here(asked: Question, tilings: Sequence[Tiling]) -> list[float]:
    """Microseconds of a run under each tiling on this machine, on as many threads as the device has
    units here. They take turns, so that what else goes on here meets them all.
    """
    threads = max(1, min(asked.device.units, cores()))
    ready = []
    for n, tiling in enumerate(tilings):
        told(f"measure tiles: compile for {asked.kernel.name}", n, len(tilings))
        ready.append(
            prepare(asked.kernel, tiling, asked.operands, asked.device, threads, asked.env)
        )
    best = [float("inf")] * len(ready)
    for turn in range(TURNS):
        told(f"measure tiles: time {asked.kernel.name}", turn, TURNS)
        best = [min(us, made.best_us(TURN_US)) for us, made in zip(best, ready, strict=True)]
    return best


@dataclass(frozen=True, slots=True)
class MeasureTiles:
    """After: every kernel that can be timed alone has the fastest of its `count` best candidates,
    where that is clearly faster than the model's first.

    Left to the model are kernels pinned by hand, those with one candidate, and those that read
    integers which are no constants: what they hold is not known before a run. Raises BadOption for
    a device that cannot run here.
    """

    device: Device
    count: int
    timer: Timer | None = None

    def __post_init__(self) -> None:
        if not runs_on(self.device, this_cpu()):
            name = self.device.name
            raise BadOption(
                f"roller.measure times tilings on this machine, which cannot run {name}",
                where="roller.measure",
                try_="roller.measure=0",
            )

    def __call__(self, program: Program) -> Program:
        """The program with measured tilings; the decisions tell every time."""
        decided = {t.binding: t for t in program.decisions.tilings}
        calls = program.kernel_calls
        for n, binding in enumerate(calls):
            told(f"measure tiles: {binding.name}", n, len(calls))
            found = decided.get(binding.name)
            if found is not None:
                decided[binding.name] = self._measured(program, binding, found)

        def chosen(binding: Binding) -> Binding:
            found = decided.get(binding.name)
            if not isinstance(binding.expr, KernelCall) or found is None or not found.measured:
                return binding
            timed = replace(binding.expr, tiling=found.chosen, efficient=found.efficient)
            return replace(binding, expr=timed)

        functions = tuple(
            replace(f, body=tuple(chosen(b) for b in f.body)) for f in program.functions
        )
        left = replace(program.decisions, tilings=tuple(decided.values()))
        return replace(program, functions=functions, decisions=left)

    def _measured(
        self, program: Program, binding: Binding, found: TilingDecision
    ) -> TilingDecision:
        call = binding.kernel_call
        legal = [c for c in found.candidates if not c.refused][: self.count]
        given = _chooses_rows(program, call)
        if found.pinned or call.tiling != found.chosen or len(legal) < 2 or given is None:
            return found
        asked = Question(call.kernel, self.device, program.env, given)
        times = self._times(asked, [c.value for c in legal if isinstance(c.value, Tiling)])
        rows = [
            MeasuredTile(rank, c.value, c.cost_us, times[c.value])
            for rank, c in enumerate(legal, 1)
            if isinstance(c.value, Tiling)
        ]
        ranked = sorted(range(len(rows)), key=lambda n: rows[n].measured_us)
        if rows[0].measured_us < LEAST_GAIN_RATIO * rows[ranked[0]].measured_us:
            ranked = [0, *(n for n in ranked if n)]
        first = [legal[n] for n in ranked]
        rest = [c for c in found.candidates if c not in first]
        best = rows[ranked[0]].tiling
        measured = tuple(rows[n] for n in ranked)
        kept = found.efficient if best == found.chosen else None  # whose work the clock did not see
        ordered = (*first, *rest)
        return replace(found, chosen=best, candidates=ordered, measured=measured, efficient=kept)

    def _times(self, asked: Question, tilings: Sequence[Tiling]) -> dict[Tiling, float]:
        """Microseconds of each; only those that are not known from before are timed."""
        keys = {tiling: asked.key(tiling) for tiling in tilings}
        known = {t: data for t, key in keys.items() if (data := store.get(key)) is not None}
        missing = [t for t in tilings if t not in known]
        fresh = (self.timer or time_here)(asked, missing) if missing else ()
        found = {t: float(json.loads(data)) for t, data in known.items()}
        for tiling, us in zip(missing, fresh, strict=True):
            counters.add("tilings_measured")
            store.put(keys[tiling], json.dumps(us).encode(), "measurement")
            found[tiling] = us
        return {t: found[t] for t in tilings}


def _chooses_rows(program: Program, call: KernelCall) -> Arrays | None:
    """The integers that a call reads, which are constants; None where some are not."""
    given = {}
    for name, arg in zip(call.kernel.inputs, call.args, strict=True):
        dtype = call.kernel.dtype(name)
        if is_float(dtype) or dtype == "bool":
            continue
        if arg.name not in program.constants:
            return None
        given[name] = program.constants[arg.name].array
    return given
