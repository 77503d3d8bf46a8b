"""Steps in order: each result is kept by content, so moving one knob runs again only what follows
it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import count
from time import perf_counter
from typing import TypeAlias

from explorer import cache
from explorer.allowance import memory_bytes
from explorer.cached_property import cached_property
from explorer.counters import counters
from explorer.errors import Cancelled
from explorer.forking import ForkLock
from explorer.ir.decisions.decided import Decisions
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.ops.reference.cancellation import cancellable
from explorer.passes.pipeline.fingerprint import differ_beside_bindings, pass_key, program_key
from explorer.passes.pipeline.own_pass import OwnPass, blaming
from explorer.passes.pipeline.progress import telling
from explorer.passes.pipeline.validate import Validation
from explorer.plain_text import counted, duration
from explorer.printed import Printed

Pass: TypeAlias = Callable[[Program], Program]
Progress: TypeAlias = Callable[
    [str, int, int], None
]  # step name, how many are done, how many there are


@dataclass(frozen=True, slots=True)
class Step:
    """A pass in a pipeline: the name that pictures show, and the stage its result has reached."""

    name: str
    stage: Stage
    run: Pass


@dataclass(frozen=True, slots=True)
class StepTime:
    """What one step took, or took at first where it was `kept`; `checked` as in `Snapshot`."""

    name: str
    stage: Stage
    seconds: float
    kept: bool = False
    checked: None | bool | str = None


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot(Printed):
    """What one step made of a program. `kept`: it was remembered, not run; `seconds` is then what
    it took at first.

    `checked` is None where nobody looked, True where the values stayed the same, else what was
    wrong. `own`: the step is a pass of the user's own.
    """

    name: str
    stage: Stage
    before: Program
    after: Program
    seconds: float
    kept: bool = False
    checked: None | bool | str = None
    own: bool = False

    def __str__(self) -> str:
        before, after = (sum(1 for _ in p.bindings()) for p in (self.before, self.after))
        same = counted(before, "binding")
        change = same if before == after else f"{same} to {after:,}"
        if self.after is self.before:
            change += ", unchanged"
        checked = "" if self.checked is None else f", checked: {self.checked}"
        took = f"{duration(1e6 * self.seconds)}{' when it ran' if self.kept else ''}"
        return f"{self.name} ({self.stage.name}): {change}, {took}{checked}"

    @property
    def decisions(self) -> Decisions:
        """Everything that was decided up to here."""
        return self.after.decisions

    @property
    def time(self) -> StepTime:
        """What it took."""
        return StepTime(self.name, self.stage, self.seconds, self.kept, self.checked)


def changed_by_own(snapshots: Sequence[Snapshot]) -> tuple[str, ...]:
    """The passes of the user's own that changed the program."""
    return tuple(s.name for s in snapshots if s.own and s.after is not s.before)


@dataclass(frozen=True)
class Result:
    """What is remembered of a step: what it was given (None: the first step), and what it made of
    it. `key` tells which steps led here; other steps may lead to the same content.
    """

    program: Program
    key: str
    seconds: float = 0.0
    before: Result | None = None

    @cached_property
    def content(self) -> str:
        """The content of the program, told when it is asked for."""
        return program_key(self.program)


Memo: TypeAlias = cache.Memory[Result]
KEPT_MODELS = 8  # whose steps are remembered: a bound on memory, chosen, as the next three
KEPT_BYTES = 1 << 30  # of constants, of all models whose steps are remembered
KEPT_TIMES = 4  # or so many times a model's own, where that is more
KEPT_PARTS = 4  # and never more than one part in so many of the memory that there is

_memos: OrderedDict[str, Memo] = OrderedDict()
_lock = ForkLock()
_serial = count(1)


def memo_of(key: str, program: Program) -> Memo:
    """The results remembered of one model; those of models not used for long are forgotten, and
    of its own those used least recently, where all that steps made of constants is too much.
    """
    own = sum(c.array.nbytes for c in program.constants.values())
    with _lock:
        found = _memos.pop(key, None) or cache.Memory(limit_bytes=kept_bytes(own), parts=_held)
        _memos[key] = found
        while len(_memos) > KEPT_MODELS or (
            len(_memos) > 1
            and sum(m.stats().size_bytes for m in _memos.values()) > found.limit_bytes
        ):
            _memos.popitem(last=False)
    return found


def kept_bytes(own: int) -> int:
    """The bytes of constants that are remembered for a model that has so many of its own."""
    return min(max(KEPT_BYTES, KEPT_TIMES * own), memory_bytes() // KEPT_PARTS)


def _held(result: Result) -> Iterator[tuple[int, int]]:
    """The constants that a result keeps alive: those of its program, and of what it was made of."""
    yield id(result), 0
    for one in (result, result.before):
        if one is not None:
            yield from ((id(c), c.array.nbytes) for c in one.program.constants.values())


def run_steps(
    program: Program,
    steps: Sequence[Step],
    *,
    device_key: str | None = "",
    check: bool = False,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
    memo: Memo | None = None,
    key: str = "",
) -> tuple[Program, tuple[Snapshot, ...]]:
    """The program after all steps, and a snapshot of each.

    `key` stands for the content of `program` where the caller knows it, such as the digest of its
    file; `device_key` for all else that every step depends on, None where nobody can tell it;
    `memo` is the process's own unless given. `cancelled` is asked before each step; Cancelled is
    raised where it says yes. With `check`, a step that breaks the program or changes its values
    says so in its snapshot.
    """
    now = Result(program, key or program_key(program))
    memory = memo_of(now.key, program) if memo is None else memo
    validation = Validation(program) if check else None
    snapshots: list[Snapshot] = []
    for number, step in enumerate(steps):
        if cancelled is not None and cancelled():
            raise Cancelled(f"stopped before the step {step.name!r}", where=step.name)
        if progress is not None:
            progress(step.name, number, len(steps))
        with (
            blaming(step.name, changed_by_own(snapshots)),
            cancellable(cancelled),
            telling(progress),
        ):
            result, kept = _run(now, step, device_key, memory)
        checked = None if validation is None else validation.of(program, result.program)
        own, seconds = isinstance(step.run, OwnPass), result.seconds
        snapshots.append(
            Snapshot(step.name, step.stage, program, result.program, seconds, kept, checked, own)
        )
        program, now = result.program, result
    if progress is not None and steps:
        progress(steps[-1].name, len(steps), len(steps))
    return program, tuple(snapshots)


def steps_key(steps: Sequence[Step]) -> str | None:
    """What steps do, by content: the same in every process. None where nobody can tell it of one of
    them.
    """
    told = all(getattr(step.run, "remembered", True) for step in steps)
    return pass_key(tuple(steps)) if told else None


def _step_key(step: Step, device_key: str | None) -> str | None:
    run = pass_key(step.run)
    if run is None or device_key is None:
        return None
    return _joined(step.name, step.stage.name, run, device_key)


def _joined(*parts: str) -> str:
    return blake2b("\n".join(parts).encode(), digest_size=24).hexdigest()


def _run(before: Result, step: Step, device_key: str | None, memory: Memo) -> tuple[Result, bool]:
    """The result of a step, found by the steps that led to it, or by the content of what it is
    given: that is looked at only where the step has run on something before.

    What a step makes is not remembered where nobody can tell what the step is, or where it changed
    what it refers to while it ran.
    """
    step_key = _step_key(step, device_key)
    key = _joined(before.key, step_key or f"unremembered {next(_serial)}")
    found = None
    if step_key is not None:
        found = memory.get(key) or _of_same_content(before, step_key, memory)
    if found is not None:
        counters.add("pass_hits")
        return memory.put(key, found), True
    program, start = before.program, perf_counter()
    after = step.run(program)
    if after.stage != step.stage:
        after = replace(after, stage=step.stage)
    given = replace(before, before=None)  # not all that led there
    result = Result(after, key, perf_counter() - start, given)
    counters.add("pass_runs")
    if step_key is None or _step_key(step, device_key) != step_key:
        return result, False
    for n in count():
        if memory.get((step_key, n)) is None:
            memory.put((step_key, n), result)
            break
    return memory.put(key, result), False


def _of_same_content(before: Result, step_key: str, memory: Memo) -> Result | None:
    """What the step made of a program with the content of this one, on another way to it."""
    for n in count():
        found = memory.get((step_key, n))
        if found is None:
            return None
        known = found.before
        if known is not None and _are_alike(known, before):
            return found
    raise AssertionError("counting ends where nothing is kept")


def _are_alike(one: Result, other: Result) -> bool:
    """Return True if the programs have the same content."""
    if one.program is other.program:
        return True
    return not differ_beside_bindings(one.program, other.program) and one.content == other.content
