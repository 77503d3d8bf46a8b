"""Driver of the pipeline: take a compilation from the cache, or run its steps and store it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from explorer.codegen.build import KernelCode
from explorer.codegen.cpu.compile_processes import HelpersAhead
from explorer.codegen.emit import STEP, emit, emit_snapshot
from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.devices.model import Device, text_of_device
from explorer.devices.target import own_target
from explorer.errors import Cancelled, IronworksError, fault
from explorer.frontends.model import Model
from explorer.ir.program import Constant, Program
from explorer.ir.stage import Stage
from explorer.ops.user_operators import user_operators
from explorer.passes.fingerprint import pass_key
from explorer.passes.snapshots import (
    Progress,
    Snapshot,
    Step,
    StepTime,
    changed_by_user_passes,
    run_steps,
)
from explorer.passes.user_pass import blame_user_passes
from explorer.process.garbage import rare_collections
from explorer.stored import programs
from explorer.stored.program_key import ProgramKey, program_key
from explorer.stored.serialize import StoredStep

IsCancelled = Callable[[], bool]
Recompile = Callable[..., Compilation]  # with other options, until a stage, for other sizes


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """Request to compile a model for a device with the steps of stages up to `last`.

    `whole` is True if no stage follows `last`; only complete programs are stored.
    """

    model: Model
    device: Device
    options: Options
    steps: tuple[Step, ...]
    last: Stage
    is_complete: bool
    check: bool = False
    donated: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Name of the model in the memo of steps."""
        return f"{self.model.digest} {self.model.name}"

    @property
    def program_key(self) -> ProgramKey | None:
        """Key of the finished program in the cache; None if it cannot be stored."""
        if self.check or not self.is_complete:
            return None
        setting_key = _setting_key(self.device)
        return program_key(
            self.model, self.device, self.options, self.donated, self.steps, setting_key
        )

    def run(
        self, progress: Progress | None = None, cancelled: IsCancelled | None = None
    ) -> tuple[Program, tuple[Snapshot, ...]]:
        """Run all passes and return the last program with a snapshot of each step."""
        return run_steps(
            self.model.program,
            self.steps,
            device_key=_setting_key(self.device),
            check=self.check,
            progress=progress,
            cancelled=cancelled,
            key=self.key,
        )

    def constants(self) -> Mapping[str, Constant]:
        """Return the constants that the passes leave, for a cache entry that has lost its own."""
        return self.run()[0].constants


@dataclass(frozen=True, slots=True)
class StepError:
    """Error that ended a compilation, with the step and stage that raised it."""

    step: str
    stage: Stage
    problem: IronworksError


def run_until_error(
    request: CompileRequest, cancelled: IsCancelled | None = None
) -> tuple[CompileRequest, StepError] | None:
    """Return the steps before the first one that raises an error, and that error, or None.

    The results of the earlier steps are memoised, so compiling the shorter request runs none again.
    """
    current, step_names = 0, [step.name for step in request.steps]

    def follow(step: str, done: int, of: int) -> None:
        """Follow which step runs; its parts report under other names."""
        nonlocal current
        if of == len(step_names) and done < of and step_names[done] == step:
            current = done

    try:
        request.run(follow, cancelled)
    except Cancelled:
        raise
    except Exception as problem:
        step, before = request.steps[current], request.steps[:current]
        last = before[-1].stage if before else request.model.program.stage
        problem_found = fault(problem, f"the step {step.name!r}")
        short = replace(request, steps=before, last=last, is_complete=False)
        return short, StepError(step.name, step.stage, problem_found)
    return None


def from_cache(
    request: CompileRequest,
    key: ProgramKey | None,
    recompile: Recompile,
    progress: Progress | None,
    cancelled: IsCancelled | None,
) -> Compilation | None:
    """Return the compilation that an earlier process stored, or None."""
    if key is None or (cancelled is not None and cancelled()):
        return None
    with rare_collections():
        entry = programs.find(key, request.model, request.device, request.constants)
    if entry is None:
        return None
    if progress is not None:
        progress("open from the cache", len(request.steps), len(request.steps))
    return Compilation(
        request.model,
        request.device,
        request.options,
        entry.program,
        tuple(StepTime(row.name, row.stage, row.seconds, cached=True) for row in entry.steps),
        lambda: _snapshots(request, entry),
        entry.codes,
        recompile,
        request.check,
        request.donated,
    )


def _snapshots(request: CompileRequest, entry: programs.CachedProgram) -> tuple[Snapshot, ...]:
    """Run the steps of a program that came from the cache and return their snapshots."""
    with rare_collections():
        program, snapshots = request.run()
    if entry.program.stage < Stage.EMITTED:
        return snapshots
    return (*snapshots, emit_snapshot(program, entry.steps[-1].seconds))


def run_all_steps(
    request: CompileRequest,
    key: ProgramKey | None,
    recompile: Recompile,
    progress: Progress | None,
    cancelled: IsCancelled | None,
) -> Compilation:
    """Run all steps and return the compilation.

    With a key the program is stored for later processes, unless a step changed an object that the
    key covers while it ran.
    """
    device, model = request.device, request.model
    codes: Mapping[str, KernelCode] = {}
    emits = request.last >= Stage.EMITTED
    operators = sum(len(f.body) for f in model.program.functions) if emits else 0
    with rare_collections(), HelpersAhead(f"{request.key} {device}", operators) as ahead:
        program, snapshots = request.run(progress, cancelled)
        if emits:
            with blame_user_passes(STEP, changed_by_user_passes(snapshots)):
                last, codes = emit(program, device, snapshots, progress, cancelled, ahead)
            if request.check and codes:
                from explorer.compiler.check_code import check_code  # seldom asked for

                last = replace(last, checked=check_code(last.after, codes))
            program, snapshots = last.after, (*snapshots, last)
        times = tuple(s.time for s in snapshots)
        if key is not None and (key.stays or key == request.program_key):
            rows = [StoredStep(t.name, t.stage, t.seconds) for t in times]
            programs.store_program(key, model, program, codes, rows)
    return Compilation(
        model,
        device,
        request.options,
        program,
        times,
        lambda: snapshots,
        codes,
        recompile,
        request.check,
        request.donated,
    )


def _setting_key(device: Device) -> str | None:
    """Return the key of the device and of the user's operators and target; None without one."""
    own = (*user_operators().values(), *filter(None, (own_target(device),)))
    if not own:
        return text_of_device(device)
    key = pass_key(own)
    return None if key is None else f"{text_of_device(device)} {key}"
