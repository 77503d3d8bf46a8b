"""Time of each part of a kernel by task, from an instrumented copy, with the copy's slowdown."""

from __future__ import annotations

import ast
import ctypes
import json
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.codegen.build import KernelCode
from explorer.codegen.cpu.object.object_code import compile_uncached
from explorer.compilation import Compilation
from explorer.devices.cpus import runs_on
from explorer.errors import BadOption
from explorer.ir.kernel import Kernel
from explorer.ir.shapes.dims import Sizes
from explorer.measure.compare import Comparison, comparison
from explorer.measure.this_machine.one_kernel import Operands, PreparedKernel
from explorer.measure.this_machine.this_cpu import this_cpu
from explorer.measure.turns import take_turns
from explorer.runtime.workers.arena import address_of
from explorer.runtime.workers.clock import cycles_per_us
from explorer.sandbox.helper import Ended, Limits, in_helper, is_helper
from explorer.tuning.answers import agree
from explorer.tuning.inside.parts import Parts, SourcePart

LIMITS = Limits(seconds=60.0, mib=2048)
MOST_TASKS = 16  # of a kernel, evenly spaced; chosen, as the next four
RUNS = 21  # of each task, for the median
MOST_PARTS = 12
HALF = 0.5  # of the time: a longer part is opened, unless the copy gets much slower
SLOWER = 1.3  # largest slowdown of a copy with several parts
SLOWEST = 4.0  # largest slowdown of a copy with a single part
COMPARED_SECONDS = 0.15

Table = NDArray[np.int64]
RUN = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint64)


@dataclass(frozen=True, slots=True)
class TracedKernel:
    """Times of a kernel's parts on one thread, alone, with its data in the caches if it fits.

    `us` has a row for each of `tasks`, which are some of `of`: first the time between the parts,
    then each part, as the median of several runs. Stamps are included: the copy takes `slower`
    times as long as the kernel, with interval `low` to `high`.
    """

    kernel: str
    parts: tuple[SourcePart, ...]
    tasks: tuple[int, ...]
    of: int
    us: tuple[tuple[float, ...], ...]
    slower: float
    low: float
    high: float

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of all time: first between the parts, then each part; they sum to 1."""
        sums = [sum(column) for column in zip(*self.us, strict=True)]
        return tuple(us / (sum(sums) or 1.0) for us in sums)


def kernel_parts(c: Compilation, name: str, sizes: Sizes | None = None) -> TracedKernel:
    """Measure the parts of a kernel's task; the kernel is named by itself or by a source operator.

    It runs in a process of its own.

    Raises:
        BadOption: there is no such kernel, no such process, or the copy does not finish.
    """
    binding = c.binding(name)
    code = c.codes.get(binding.name)
    if code is None or not runs_on(c.device, this_cpu()):
        raise BadOption(f"{name} has no code that runs here", where=name)
    if is_helper():
        raise BadOption("an instrumented copy needs a helper process, which is not available here")
    bound = {**c.hint, **(sizes or {})}
    kernel = binding.kernel_call.kernel

    def work(tell: Callable[[str], None]) -> None:
        tell(json.dumps(_measure_in_helper(code, kernel, bound)))

    try:
        (message,) = in_helper(work, LIMITS)
    except Ended as end:
        raise BadOption(f"the instrumented copy of {name} {end.why}", where=name) from None
    result = json.loads(message)
    parts = tuple(SourcePart(*row) for row in result["parts"])
    us = tuple(tuple(row) for row in result["us"])
    return TracedKernel(
        binding.name, parts, tuple(result["tasks"]), result["of"], us, *result["slower"]
    )


def _measure_in_helper(code: KernelCode, kernel: Kernel, sizes: Sizes) -> dict[str, Any]:
    """Measure in the helper: open the longest parts first while stamps are cheap."""
    operands = Operands(kernel, sizes)
    ours = PreparedKernel(code, operands)
    ours.launch(1)
    want = {name: array.copy() for name, array in operands.outputs.items()}
    outputs = frozenset(a.local for a in code.arguments if a.name in operands.outputs)
    parts = Parts(code.source, outputs)
    tasks = _sample_tasks(code.tasks(sizes))
    best = _Copy(code, operands, parts, want, ours, tasks)
    closed: set[int] = set()
    while (s := _longest(best, parts, closed)) is not None:
        before = set(parts.opened)
        parts.opened.add(s)
        while len(parts.statements) == 1 and parts.can_open(parts.statements[0]):
            parts.opened.add(parts.statements[0])  # a single part is no division
        more = len(parts.statements) <= MOST_PARTS
        candidate = _Copy(code, operands, parts, want, ours, tasks) if more else None
        most = SLOWER if len(best.descriptions) > 1 else SLOWEST
        if candidate is None or candidate.slower.ratio > most:
            parts.opened = before
            closed.add(id(s))
        else:
            best = candidate
    ratio = best.slower
    return {
        "parts": [[p.what, p.line, p.edge] for p in best.descriptions],
        "tasks": tasks,
        "of": code.tasks(sizes),
        "us": best.us,
        "slower": [ratio.ratio, ratio.low, ratio.high],
    }


def _longest(best: _Copy, parts: Parts, closed: set[int]) -> ast.stmt | None:
    """Return the part to open next."""
    shares = zip(best.shares[1:], parts.statements, strict=True)
    long_parts = [(x, n, s) for n, (x, s) in enumerate(shares) if x > HALF and parts.can_open(s)]
    return next((s for _, _, s in sorted(long_parts, reverse=True) if id(s) not in closed), None)


def _sample_tasks(count: int) -> list[int]:
    most = min(count, MOST_TASKS)
    return sorted({n * count // most for n in range(most)})


class _Copy:
    """An instrumented copy with stamps around these parts, its times and its slowdown."""

    def __init__(
        self,
        code: KernelCode,
        operands: Operands,
        parts: Parts,
        want: dict[str, np.ndarray],
        ours: PreparedKernel,
        tasks: list[int],
    ) -> None:
        """Compile, check and time the copy."""
        self.descriptions = parts.describe_parts()
        self.table: Table = np.zeros(1 + 2 * (1 + len(self.descriptions)), np.int64)
        source = parts.stamped(address_of(self.table))
        machine_code = compile_uncached(source, code.target)
        copy = KernelCode(source, machine_code, code.tile_program, code.arguments, code.target)
        prepared = PreparedKernel(copy, operands)
        prepared.launch(1)
        for name, array in operands.outputs.items():
            if not agree(array, want[name]):
                raise AssertionError(f"the instrumented copy has another answer, {name}")
        self.us = self._times(prepared, copy.address, tasks)
        runs = min(ours.runs, prepared.runs)
        works = (lambda: ours.launch(runs)), (lambda: prepared.launch(runs))
        self.slower: Comparison = comparison(*take_turns(works, COMPARED_SECONDS, perf_counter_ns))

    @property
    def shares(self) -> list[float]:
        """The shares of the time between parts and of each part."""
        sums = np.array(self.us).sum(0)
        return [float(us) for us in sums / (sums.sum() or 1.0)]

    def _times(self, prepared: PreparedKernel, address: int, tasks: list[int]) -> list[list[float]]:
        """Return the microseconds by task and part, each the median of the runs."""
        run, block = RUN(address), address_of(prepared.blocks[0])
        cycles = np.zeros((len(tasks), RUNS, 1 + len(self.descriptions)), np.int64)
        for turn in range(RUNS):
            for n, task in enumerate(tasks):
                self.table[:] = 0
                run(task, task + 1, block)
                cycles[n, turn] = self.table[1::2]
        us: list[list[float]] = (np.median(cycles, 1) / cycles_per_us()).round(6).tolist()
        return us
