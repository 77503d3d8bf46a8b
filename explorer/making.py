"""How a compilation comes about: found whole on disk, or made step by step and kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from explorer.codegen.build import KernelCode
from explorer.codegen.cpu.object.helper_count import HelpersAhead
from explorer.codegen.emitted import STEP, emit, emitted
from explorer.compilation import Compilation
from explorer.devices.model import Device, text_of_device
from explorer.errors import Cancelled, IronworksError, fault
from explorer.frontends.model import Model
from explorer.garbage import rare_collections
from explorer.ir.program import Constant, Program
from explorer.ir.stage import Stage
from explorer.ops.own_operators import own_operators
from explorer.options import Options
from explorer.passes.pipeline.fingerprint import pass_key
from explorer.passes.pipeline.own_pass import blaming
from explorer.passes.pipeline.pipeline import (
    Progress,
    Snapshot,
    Step,
    StepTime,
    changed_by_own,
    run_steps,
)
from explorer.stored import programs
from explorer.stored.program_key import ProgramKey, program_key
from explorer.stored.vocabulary import StepRow

Cancelling = Callable[[], bool]
Again = Callable[..., Compilation]  # with other options, until a stage, for other sizes


@dataclass(frozen=True, slots=True)
class Asked:
    """A model, what it is compiled for, and the steps until `last` in which that is done; `whole`
    where no later stage is.
    """

    model: Model
    device: Device
    options: Options
    steps: tuple[Step, ...]
    last: Stage
    whole: bool
    check: bool = False
    donated: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What the model is known by."""
        return f"{self.model.digest} {self.model.name}"

    @property
    def wanted(self) -> ProgramKey | None:
        """What the program that it becomes is kept under; None where it is not."""
        if self.check or not self.whole:
            return None
        setting = _setting_key(self.device)
        return program_key(self.model, self.device, self.options, self.donated, self.steps, setting)

    def run(
        self, progress: Progress | None = None, cancelled: Cancelling | None = None
    ) -> tuple[Program, tuple[Snapshot, ...]]:
        """The program after all passes, and a snapshot of each."""
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
        """What the passes leave of constants, for who finds them gone."""
        return self.run()[0].constants


@dataclass(frozen=True, slots=True)
class Ended:
    """The error that compiling ended in: which step raised it, and of which stage that is."""

    step: str
    stage: Stage
    problem: IronworksError


def ended(asked: Asked, cancelled: Cancelling | None = None) -> tuple[Asked, Ended] | None:
    """The steps before the one that raises an error, and that error; None where all are done.
    Those before it are remembered, so that what was compiled so far runs none of them again.
    """
    at, names = 0, [step.name for step in asked.steps]

    def told(step: str, done: int, of: int) -> None:
        """A step begins; its parts tell of themselves by other names."""
        nonlocal at
        if of == len(names) and done < of and names[done] == step:
            at = done

    try:
        asked.run(told, cancelled)
    except Cancelled:
        raise
    except Exception as problem:
        step, before = asked.steps[at], asked.steps[:at]
        last = before[-1].stage if before else asked.model.program.stage
        found = fault(problem, f"the step {step.name!r}")
        short = replace(asked, steps=before, last=last, whole=False)
        return short, Ended(step.name, step.stage, found)
    return None


def opened(
    asked: Asked,
    whole: ProgramKey | None,
    again: Again,
    progress: Progress | None,
    cancelled: Cancelling | None,
) -> Compilation | None:
    """The compilation that an earlier process kept; None where there is none."""
    if whole is None or (cancelled is not None and cancelled()):
        return None
    with rare_collections():
        found = programs.find(whole, asked.model, asked.device, asked.constants)
    if found is None:
        return None
    if progress is not None:
        progress("open from the cache", len(asked.steps), len(asked.steps))
    return Compilation(
        asked.model,
        asked.device,
        asked.options,
        found.program,
        tuple(StepTime(row.name, row.stage, row.seconds, kept=True) for row in found.steps),
        lambda: _snapshots(asked, found),
        found.codes,
        again,
        asked.check,
        asked.donated,
    )


def _snapshots(asked: Asked, found: programs.Found) -> tuple[Snapshot, ...]:
    """What each step makes on the way to a program that was found."""
    with rare_collections():
        program, snapshots = asked.run()
    if found.program.stage < Stage.EMITTED:
        return snapshots
    return (*snapshots, emitted(program, found.steps[-1].seconds))


def made(
    asked: Asked,
    whole: ProgramKey | None,
    again: Again,
    progress: Progress | None,
    cancelled: Cancelling | None,
) -> Compilation:
    """The compilation, by all its steps. Where it is wanted `whole`, later processes find it, but
    not where a step changed what it refers to while it ran.
    """
    device, model = asked.device, asked.model
    codes: Mapping[str, KernelCode] = {}
    emits = asked.last >= Stage.EMITTED
    operators = sum(len(f.body) for f in model.program.functions) if emits else 0
    with rare_collections(), HelpersAhead(f"{asked.key} {device}", operators) as ahead:
        program, snapshots = asked.run(progress, cancelled)
        if emits:
            with blaming(STEP, changed_by_own(snapshots)):
                last, codes = emit(program, device, snapshots, progress, cancelled, ahead)
            program, snapshots = last.after, (*snapshots, last)
        times = tuple(s.time for s in snapshots)
        if whole is not None and (whole.stays or whole == asked.wanted):
            rows = [StepRow(t.name, t.stage, t.seconds) for t in times]
            programs.keep(whole, model, program, codes, rows)
    return Compilation(
        model,
        device,
        asked.options,
        program,
        times,
        lambda: snapshots,
        codes,
        again,
        asked.check,
        asked.donated,
    )


def _setting_key(device: Device) -> str | None:
    """What every step depends on besides its program and its options: the device, and operators of
    the user's own. None where nobody can tell what these do.
    """
    own = own_operators()
    if not own:
        return text_of_device(device)
    key = pass_key(tuple(own.values()))
    return None if key is None else f"{text_of_device(device)} {key}"
