"""A kernel's source as somebody edited it, in the place of ours: tried in a process of its own, its
answers held against ours, and timed against ours in turns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np

from explorer.codegen.build import KernelCode
from explorer.codegen.cpu.object.object_code import compile_problem, compile_unkept
from explorer.compilation import Compilation
from explorer.devices.cpus import runs_on
from explorer.errors import BadOption, KernelCompileError
from explorer.ir.kernel import Kernel
from explorer.ir.shapes.dims import Sizes
from explorer.measure.compare import Comparison, Measurement, comparison
from explorer.measure.this_machine.one_kernel import Operands, PreparedKernel
from explorer.measure.this_machine.this_cpu import this_cpu
from explorer.measure.turns import take_turns
from explorer.printed import Printed
from explorer.sandbox.helper import Ended, Limits, in_helper, is_helper
from explorer.tuning.answers import TOLERANCE_SHARE, agree, largest_error

LIMITS = Limits(seconds=20.0, mib=2048)
LONGEST_SOURCE = 200_000  # characters: ten times the longest of ours; chosen
UNWRITTEN = 0xFF  # a byte of what no task wrote: of floats NaN
_WHERE = re.compile(r"\bline (\d+)")


@dataclass(frozen=True, slots=True, repr=False)
class Tried(Printed):
    """What came of an edited kernel. `problem` says in a sentence why it is none to go on with, ""
    where its answers are ours; then `against_ours` says how fast it is, `largest_error` how far an
    answer is off.
    """

    kernel: str
    source: str
    problem: str = ""
    largest_error: float = 0.0
    against_ours: Comparison | None = None

    def __str__(self) -> str:
        if self.against_ours is None:
            return f"{self.kernel}: {self.problem}"
        return f"{self.kernel}: right, and {self.against_ours} against ours"


def try_kernel(
    c: Compilation, name: str, source: str, *, seconds: float = 1.0, limits: Limits = LIMITS
) -> Tried:
    """Another source for the kernel of that name, or for that of a source operator, as it would do
    on one thread of this machine: it has the arguments and the tasks of ours, whatever it does.

    It runs in a process of its own: what crashes, never ends or eats memory there is a `problem`.
    Raises BadOption where there is no such kernel, or no such process.
    """
    code = c.codes.get(c.binding(name).name)
    if code is None or not runs_on(c.device, this_cpu()):
        raise BadOption(f"{name} has no code that runs here", where=name)
    binding = c.binding(name)
    return tried(binding.name, code, binding.kernel_call.kernel, c.hint, source, seconds, limits)


def tried(
    name: str,
    code: KernelCode,
    kernel: Kernel,
    sizes: Sizes,
    source: str,
    seconds: float = 1.0,
    limits: Limits = LIMITS,
) -> Tried:
    """The same of a kernel by its code; `sizes` bind its symbols."""
    if is_helper():
        raise BadOption("an edited kernel needs a process of its own, which cannot be had here")
    if len(source) > LONGEST_SOURCE:
        raise BadOption(f"a source has at most {LONGEST_SOURCE:,} characters, not {len(source):,}")

    def work(tell: Callable[[str], None]) -> None:
        tell(json.dumps(_found(code, kernel, sizes, source, seconds)))

    try:
        (told,) = in_helper(work, limits)
    except Ended as end:
        why = end.why.partition(", at line ")[0]  # of who asked: of machine code no line is known
        return Tried(name, source, f"the edited kernel {why}")
    found = json.loads(told)
    if found["problem"]:
        return Tried(name, source, found["problem"], found["error"])
    return Tried(name, source, "", found["error"], _comparison(found["times"]))


def _found(
    code: KernelCode, kernel: Kernel, sizes: Sizes, source: str, seconds: float
) -> dict[str, Any]:
    """In the helper: what came of it, as a JSON value."""
    try:
        made = compile_unkept(source, code.target)
    except KernelCompileError as problem:
        if isinstance(problem.__cause__, MemoryError):
            raise problem.__cause__ from None
        return {"problem": _compile_sentence(problem), "error": 0.0}
    edited = KernelCode(source, made, code.tile_program, code.arguments, code.target)
    operands = Operands(kernel, sizes)
    ours = PreparedKernel(code, operands)
    want, before = _answers(ours), {n: a.copy() for n, a in operands.arrays.items()}
    theirs = PreparedKernel(edited, operands)
    found = _answers(theirs)
    error = max((largest_error(found[n], want[n]) for n in want), default=0.0)
    for name, array in operands.arrays.items():
        if array.tobytes() != before[name].tobytes():
            return {"problem": f"it writes over what it reads, {name}", "error": error}
    for name, value in want.items():
        if not agree(found[name], value):
            return {"problem": _wrong(name, found[name], value), "error": error}
    runs = min(ours.runs, theirs.runs)
    works = (lambda: theirs.launch(runs)), (lambda: ours.launch(runs))
    told = comparison(*take_turns(works, seconds, perf_counter_ns))
    return {"problem": "", "error": error, "times": _times(told, runs)}


def _answers(prepared: PreparedKernel) -> dict[str, np.ndarray]:
    """What one run writes, over bytes that are no answer."""
    outputs = prepared.operands.outputs
    for array in outputs.values():
        array.reshape(-1).view(np.uint8).fill(UNWRITTEN)
    prepared.launch(1)
    return {name: array.copy() for name, array in outputs.items()}


def _wrong(name: str, found: np.ndarray, want: np.ndarray) -> str:
    """Where an answer is furthest from ours."""
    gap = np.abs(found.astype(np.float64) - want.astype(np.float64))
    at = np.unravel_index(int(np.where(np.isnan(gap), np.inf, gap).argmax()), gap.shape)
    place = ", ".join(str(int(n)) for n in at)
    return (
        f"its answer is wrong: {name}[{place}] is {found[at]:.6g} and should be {want[at]:.6g} "
        f"(to {TOLERANCE_SHARE:g} of the largest)"
    )


def _compile_sentence(problem: KernelCompileError) -> str:
    """Why it does not compile, with the line."""
    text = str(problem.__cause__ or problem)
    said = compile_problem(problem.__cause__ or problem)
    where = _WHERE.search(text)
    at = f", at line {where.group(1)}" if where and not _WHERE.search(said) else ""
    return f"it does not compile: {said.rstrip('.')}{at}"


def _times(told: Comparison, runs: int) -> list[Any]:
    parts = [told.ratio, told.low, told.high, told.n, told.verdict]
    return [*parts, *(_of_run(m, runs) for m in (told.first, told.second))]


def _of_run(m: Measurement, runs: int) -> list[Any]:
    return [m.median_us / runs, m.low_us / runs, m.high_us / runs, m.n * runs, m.machine]


def _comparison(times: list[Any]) -> Comparison:
    ratio, low, high, n, verdict, first, second = times
    return Comparison(ratio, low, high, n, verdict, Measurement(*first), Measurement(*second))
