"""User-edited kernel sources: run in a separate process, checked and timed against the original."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np

from explorer.codegen.build import KernelCode
from explorer.codegen.cpu.object_code import compile_problem, compile_uncached
from explorer.compiler.compilation import Compilation
from explorer.devices.cpus import runs_on
from explorer.errors import BadOption, KernelCompileError
from explorer.ir.dims import Sizes
from explorer.ir.kernel import Kernel
from explorer.measure.compare import Comparison, Measurement, comparison
from explorer.measure.one_kernel import Operands, PreparedKernel
from explorer.measure.this_cpu import this_cpu
from explorer.measure.turns import take_turns
from explorer.printed import Printed
from explorer.process.sandbox import Ended, Limits, in_helper, is_helper
from explorer.tuning.compare import TOLERANCE_SHARE, agree, largest_error

LIMITS = Limits(seconds=20.0, mib=2048)
LONGEST_SOURCE = 200_000  # characters: ten times the longest of ours; chosen
UNWRITTEN = 0xFF  # byte of unwritten outputs: floats are NaN
_WHERE = re.compile(r"\bline (\d+)")


@dataclass(frozen=True, slots=True, repr=False)
class KernelTrial(Printed):
    """The result of an edited kernel.

    `problem` is the reason in a sentence why it is unusable, "" if its outputs agree with the
    original's; then `against_ours` compares the times. `largest_error` is the largest deviation.
    """

    kernel: str
    source: str
    problem: str = ""
    largest_error: float = 0.0
    against_ours: Comparison | None = None

    def __str__(self) -> str:
        """Return the problem or the comparison in a line."""
        if self.against_ours is None:
            return f"{self.kernel}: {self.problem}"
        return f"{self.kernel}: right, and {self.against_ours} against ours"


def try_kernel(
    c: Compilation, name: str, source: str, *, seconds: float = 1.0, limits: Limits = LIMITS
) -> KernelTrial:
    """Run another source for a kernel, named by itself or by a source operator.

    It runs on one thread of this machine, with the arguments and tasks of the original, in a
    process of its own: a crash, an endless loop or excessive memory becomes a `problem`.

    Raises:
        BadOption: there is no such kernel, or no such process.
    """
    code = c.codes.get(c.binding(name).name)
    if code is None or not runs_on(c.device, this_cpu()):
        raise BadOption(f"{name} has no code that runs here", where=name)
    binding = c.binding(name)
    return run_edited_kernel(
        binding.name, code, binding.kernel_call.kernel, c.hint, source, seconds, limits
    )


def run_edited_kernel(
    name: str,
    code: KernelCode,
    kernel: Kernel,
    sizes: Sizes,
    source: str,
    seconds: float = 1.0,
    limits: Limits = LIMITS,
) -> KernelTrial:
    """Run another source for a kernel given by its code; `sizes` bind its symbols."""
    if is_helper():
        raise BadOption("an edited kernel needs a helper process, which is not available here")
    if len(source) > LONGEST_SOURCE:
        raise BadOption(f"a source has at most {LONGEST_SOURCE:,} characters, not {len(source):,}")

    def work(tell: Callable[[str], None]) -> None:
        tell(json.dumps(_run_in_helper(code, kernel, sizes, source, seconds)))

    try:
        (message,) = in_helper(work, limits)
    except Ended as end:
        why = end.why.partition(", at line ")[0]  # the line is the caller's: machine code has none
        return KernelTrial(name, source, f"the edited kernel {why}")
    result = json.loads(message)
    if result["problem"]:
        return KernelTrial(name, source, result["problem"], result["error"])
    return KernelTrial(name, source, "", result["error"], _comparison(result["times"]))


def _run_in_helper(
    code: KernelCode, kernel: Kernel, sizes: Sizes, source: str, seconds: float
) -> dict[str, Any]:
    """Run, check and time the edited kernel in the helper; return the result as JSON data."""
    try:
        machine_code = compile_uncached(source, code.isa)
    except KernelCompileError as problem:
        if isinstance(problem.__cause__, MemoryError):
            raise problem.__cause__ from None
        return {"problem": _compile_sentence(problem), "error": 0.0}
    edited = KernelCode(source, machine_code, code.tile_program, code.arguments, code.isa)
    operands = Operands(kernel, sizes)
    ours = PreparedKernel(code, operands)
    want, before = _run_outputs(ours), {n: a.copy() for n, a in operands.arrays.items()}
    theirs = PreparedKernel(edited, operands)
    answers = _run_outputs(theirs)
    error = max((largest_error(answers[n], want[n]) for n in want), default=0.0)
    for name, array in operands.arrays.items():
        if array.tobytes() != before[name].tobytes():
            return {"problem": f"it overwrites its input {name}", "error": error}
    for name, value in want.items():
        if not agree(answers[name], value):
            return {"problem": _describe_wrong(name, answers[name], value), "error": error}
    runs = min(ours.runs, theirs.runs)
    works = (lambda: theirs.launch(runs)), (lambda: ours.launch(runs))
    timing = comparison(*take_turns(works, seconds, perf_counter_ns))
    return {"problem": "", "error": error, "times": _timing_data(timing, runs)}


def _run_outputs(prepared: PreparedKernel) -> dict[str, np.ndarray]:
    """Return the outputs of one run, over memory filled with `UNWRITTEN`."""
    outputs = prepared.operands.outputs
    for array in outputs.values():
        array.reshape(-1).view(np.uint8).fill(UNWRITTEN)
    prepared.launch(1)
    return {name: array.copy() for name, array in outputs.items()}


def _describe_wrong(name: str, actual: np.ndarray, want: np.ndarray) -> str:
    """Describe where an output differs most from the original."""
    gap = np.abs(actual.astype(np.float64) - want.astype(np.float64))
    at = np.unravel_index(int(np.where(np.isnan(gap), np.inf, gap).argmax()), gap.shape)
    place = ", ".join(str(int(n)) for n in at)
    return (
        f"its answer is wrong: {name}[{place}] is {actual[at]:.6g} and should be {want[at]:.6g} "
        f"(to {TOLERANCE_SHARE:g} of the largest)"
    )


def _compile_sentence(problem: KernelCompileError) -> str:
    """Describe why the source does not compile, with the line."""
    text = str(problem.__cause__ or problem)
    problem_text = compile_problem(problem.__cause__ or problem)
    where = _WHERE.search(text)
    at = f", at line {where.group(1)}" if where and not _WHERE.search(problem_text) else ""
    return f"it does not compile: {problem_text.rstrip('.')}{at}"


def _timing_data(timing: Comparison, runs: int) -> list[Any]:
    parts = [timing.ratio, timing.low, timing.high, timing.n, timing.verdict]
    return [*parts, *(_run_data(m, runs) for m in (timing.first, timing.second))]


def _run_data(m: Measurement, runs: int) -> list[Any]:
    return [m.median_us / runs, m.low_us / runs, m.high_us / runs, m.n * runs, m.machine]


def _comparison(times: list[Any]) -> Comparison:
    ratio, low, high, n, verdict, first, second = times
    return Comparison(ratio, low, high, n, verdict, Measurement(*first), Measurement(*second))
