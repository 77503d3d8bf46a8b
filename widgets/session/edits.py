"""Kernels whose source a reader edits: the text, its original, and the result of its trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from hashlib import blake2b
from typing import Any

from explorer.codegen.build import KernelCode
from explorer.compiler.kernels import CompiledKernel
from explorer.errors import BadOption
from explorer.ir.kernel import Kernel
from explorer.plain_text import counted
from explorer.tuning.edited_kernel import KernelTrial, run_edited_kernel
from widgets.draw.table import time_text
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.session.jobs import Job, Jobs
from widgets.session.questions import item
from widgets.session.state import LONGEST_SOURCE

NOT_IN_USE = (
    "The kernel that this edit began from is not in use here: set the knobs as they were, or begin "
    "again from the one in use."
)


@dataclass(frozen=True, slots=True)
class Edit:
    """An edited source; `base` is the hash of the source that it started from."""

    source: str
    base: str


@dataclass(frozen=True, slots=True)
class KernelEdits:
    """The edits by kernel call; `dropped` holds discarded edits that can be restored."""

    edits: Mapping[str, Edit] = field(default_factory=dict)
    dropped: Mapping[str, Edit] = field(default_factory=dict)

    def to_rows(self) -> tuple[tuple[str, str, str], ...]:
        """Return the edits as rows of a saved state."""
        return tuple((name, e.base, e.source) for name, e in sorted(self.edits.items()))

    def with_edit(self, name: str, edit: Edit) -> KernelEdits:
        """Return the edits with another text for a kernel."""
        return replace(self, edits={**self.edits, name: edit})

    def with_saved(self, rows: tuple[tuple[str, str, str], ...]) -> KernelEdits:
        """Add the edits of a saved state; none of them is run automatically.

        Other edits stay, and an edit that is replaced can be restored.
        """
        saved = {name: Edit(source, base) for name, base, source in rows}
        gone = {n: e for n, e in self.edits.items() if n in saved and saved[n] != e}
        return KernelEdits({**self.edits, **saved}, {**self.dropped, **gone})

    def without(self, name: str) -> KernelEdits:
        """Return the edits without a kernel's; it can be restored."""
        remaining = {n: e for n, e in self.edits.items() if n != name}
        gone = {name: self.edits[name]} if name in self.edits else {}
        return KernelEdits(remaining, {**self.dropped, **gone})


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel in use with its code."""

    name: str
    label: str
    code: KernelCode
    kernel: Kernel
    sizes: Mapping[str, int]

    @property
    def base(self) -> str:
        """The hash of its source."""
        return source_hash(self.code.source)


def source_hash(source: str) -> str:
    """Return the hash that identifies a source."""
    return blake2b(source.encode(), digest_size=8).hexdigest()


class EditTrials:
    """One session's trials of edited kernels, and the kernels that edits started from."""

    def __init__(self, refused: str = "") -> None:
        """Create an empty record; `refused` is the reason why no edit may be tried."""
        self.refused = refused
        self.bases: dict[str, KernelCode] = {}
        self.outcomes: dict[tuple[str, str, str], dict[str, Any]] = {}

    def subject(self, now: Setting, house: House, call: int) -> Subject:
        """Return the kernel of a call; raises BadOption if it has no code that can run here."""
        name = item(house.calls, call, "call").name
        code = next((k for k in now.compiled.kernels if k.name == name), None)
        if not isinstance(code, CompiledKernel) or not now.compiled.device.is_this_cpu:
            problem = f"{house.label(name)} has no code that can be edited and run here"
            raise BadOption(problem, where=name, try_="compile for this-cpu, through to code")
        program = now.compiled.program
        binding = next(b for b in program.kernel_calls if b.name == name)
        sizes = {**program.env.hints, **dict(now.sizes)}
        label = house.label(name)
        return Subject(name, label, code.code, binding.kernel_call.kernel, sizes)

    def edit_part(self, s: Subject, edited: KernelEdits) -> dict[str, Any]:
        """Return a kernel's edited text, its difference from the one in use, and its result."""
        edit = edited.edits.get(s.name)
        if edit and edit.base == s.base:
            self.bases[edit.base] = s.code
        source = edit.source if edit else s.code.source
        return {
            "kernel": s.label,
            "source": source,
            "changed": _differences(s.code.source, source),
            "conflict": self._conflict(s, edit) if edit else "",
            "said": self.outcomes.get((s.name, edit.base, source)) if edit else None,
            "dropped": s.name in edited.dropped,
        }

    def _conflict(self, s: Subject, edit: Edit) -> str:
        """Return a warning if the kernel has changed since the edit started, else ""."""
        if edit.base == s.base:
            return ""
        base = self.bases.get(edit.base)
        if base is None:
            return NOT_IN_USE
        count = _differences(base.source, s.code.source)
        return (
            f"{s.label} was compiled anew since this edit began: {counted(count, 'line')} of it "
            "changed. It is tried in the place of the kernel that it began from."
        )

    def with_source(self, s: Subject, edited: KernelEdits, source: str) -> KernelEdits:
        """Return the edits with a new text for a kernel; an existing edit keeps its base."""
        if len(source) > LONGEST_SOURCE:
            raise BadOption(f"a source has at most {LONGEST_SOURCE:,} characters", where=s.name)
        before = edited.edits.get(s.name)
        if before is None and source == s.code.source:
            return edited
        base = before.base if before else s.base
        if base == s.base:
            self.bases[base] = s.code
        return edited.with_edit(s.name, Edit(source, base))

    def start(self, s: Subject, edited: KernelEdits, jobs: Jobs) -> dict[str, Any]:
        """Begin to try an edit in the background.

        Raises BadOption if the kernel that it started from is gone, or if none may be tried.
        """
        if self.refused:
            raise BadOption(self.refused, where=s.name)
        edit = edited.edits.get(s.name) or Edit(s.code.source, s.base)
        code = s.code if edit.base == s.base else self.bases.get(edit.base)
        if code is None:
            raise BadOption(NOT_IN_USE.removesuffix("."), where=s.name)

        def work(job: Job) -> dict[str, Any]:
            job.what = "compiled and run in a process of its own"
            outcome = trial_words(run_edited_kernel(s.label, code, s.kernel, s.sizes, edit.source))
            self.outcomes[s.name, edit.base, edit.source] = outcome
            return outcome

        return {"job": jobs.start(1, work)}


def trial_words(trial: KernelTrial) -> dict[str, Any]:
    """Return the result of a trial as a sentence."""
    timed = trial.against_ours
    if timed is None:
        text = trial.problem[0].upper() + trial.problem[1:]
        return {"text": f"{text}.", "bad": True}
    wide = ", wide" if timed.wide else ""
    ratio, low, high = timed.times
    ends = f"{low:.2f} to {high:.2f}, n = {timed.n}{wide}"
    us = f"{time_text(timed.first.median_us)} against {time_text(timed.second.median_us)}"
    text = f"Right, and {timed.verdict}: {ratio:.2f}× our time ({ends}), {us} on one thread."
    return {"text": text, "bad": False}


def _differences(ours: str, source: str) -> int:
    """Return the number of lines that are new, changed or gone."""
    matcher = SequenceMatcher(None, ours.split("\n"), source.split("\n"), autojunk=False)
    changes = (c for c in matcher.get_opcodes() if c[0] != "equal")
    return sum(max(a1 - a0, b1 - b0) for _, a0, a1, b0, b1 in changes)
