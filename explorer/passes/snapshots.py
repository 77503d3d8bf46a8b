"""The step pipeline: memoized by content, so that a changed option reruns only later steps."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import count
from time import perf_counter
from typing import TypeAlias

from explorer import cache
from explorer.cached_property import cached_property
from explorer.errors import Cancelled
from explorer.ir.decisions.decided import Decisions
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.passes.content import Content
from explorer.passes.fingerprint import (
    differ_beside_bindings,
    pass_content,
    pass_key,
    program_key,
)
from explorer.passes.unchecked import Unchecked
from explorer.passes.user_pass import UserPass, blame_user_passes
from explorer.plain_text import counted, duration
from explorer.printed import Printed
from explorer.process.allowance import memory_bytes
from explorer.process.cancellation import cancellable, reporting_to
from explorer.process.counters import counters
from explorer.process.forking import ForkLock

Pass: TypeAlias = Callable[[Program], Program]
Progress: TypeAlias = Callable[[str, int, int], None]  # step name, steps done, number of steps


@dataclass(frozen=True, slots=True)
class Step:
    """A pass in a pipeline: the name shown in pictures, and the stage of its result."""

    name: str
    stage: Stage
    run: Pass


@dataclass(frozen=True, slots=True)
class StepTime:
    """Duration of a step, or of its first run if it is `cached`; `checked` as in `Snapshot`."""

    name: str
    stage: Stage
    seconds: float
    cached: bool = False
    checked: None | bool | str = None


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot(Printed):
    """The program before and after one step.

    `cached`: the result came from the memo; `seconds` is then the time of the first run. `checked`
    is None if nothing was validated, True if the values stayed the same, else what was wrong; an
    `Unchecked` says why values could not be compared.
    `own`: the step is a user-defined pass.
    """

    name: str
    stage: Stage
    before: Program
    after: Program
    seconds: float
    cached: bool = False
    checked: None | bool | str = None
    own: bool = False

    def __str__(self) -> str:
        """Return a line with the change in bindings and the duration."""
        before, after = (sum(1 for _ in p.bindings()) for p in (self.before, self.after))
        same = counted(before, "binding")
        change = same if before == after else f"{same} to {after:,}"
        if self.after is self.before:
            change += ", unchanged"
        checked = "" if self.checked is None else f", checked: {self.checked}"
        checked = f", {self.checked}" if isinstance(self.checked, Unchecked) else checked
        took = f"{duration(1e6 * self.seconds)}{' when it ran' if self.cached else ''}"
        return f"{self.name} ({self.stage.title}): {change}, {took}{checked}"

    @property
    def decisions(self) -> Decisions:
        """The decisions up to this step."""
        return self.after.decisions

    @property
    def time(self) -> StepTime:
        """The duration of the step."""
        return StepTime(self.name, self.stage, self.seconds, self.cached, self.checked)


def changed_by_user_passes(snapshots: Sequence[Snapshot]) -> tuple[str, ...]:
    """Return the user-defined passes that changed the program."""
    return tuple(s.name for s in snapshots if s.own and s.after is not s.before)


@dataclass(frozen=True)
class Result:
    """The memoized result of a step: its input (None for the first step) and its output.

    `key` identifies the steps that led here; other steps may lead to the same content.
    """

    program: Program
    key: str
    seconds: float = 0.0
    before: Result | None = None

    @cached_property
    def content(self) -> str:
        """Return the content key of the program."""
        return program_key(self.program)


Memo: TypeAlias = cache.Memory[Result]
MEMO_MODELS = 8  # models whose steps are memoized: a bound on memory, chosen, as the next three
MEMO_BYTES = 1 << 30  # bytes of constants of all memoized steps
MEMO_TIMES = 4  # or this multiple of a model's own constants, if that is more
MEMO_PARTS = 4  # at most a quarter of physical memory

_memos: OrderedDict[str, Memo] = OrderedDict()
_lock = ForkLock()
_serial = count(1)


def memo_of(key: str, program: Program) -> Memo:
    """Return the memo of one model.

    Memos of models unused for long are dropped, and the least recently used results of a model
    whose steps made too many bytes of constants.
    """
    own = sum(c.nbytes for c in program.constants.values())
    with _lock:
        memo = _memos.pop(key, None) or cache.Memory(
            limit_bytes=memo_limit_bytes(own), parts=_held_constants
        )
        _memos[key] = memo
        while len(_memos) > MEMO_MODELS or (
            len(_memos) > 1
            and sum(m.stats().size_bytes for m in _memos.values()) > memo.limit_bytes
        ):
            _memos.popitem(last=False)
    return memo


def memo_limit_bytes(own: int) -> int:
    """Return the memo's byte limit of constants for a model that has so many bytes itself."""
    return min(max(MEMO_BYTES, MEMO_TIMES * own), memory_bytes() // MEMO_PARTS)


def _held_constants(result: Result) -> Iterator[tuple[int, int]]:
    """Yield the constants that a result keeps alive: those of its program and of its input."""
    yield id(result), 0
    for result_part in (result, result.before):
        if result_part is not None:
            yield from ((id(c), c.held_bytes) for c in result_part.program.constants.values())


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
    """Run all steps and return the program with a snapshot of each step.

    Args:
        program: the program before the first step.
        steps: the steps in order.
        device_key: identifies everything else that every step depends on; None if impossible.
        check: validate each step; the snapshot of one that breaks the program or changes its values
            says so.
        progress: called before each step with its name, number, and the number of steps.
        cancelled: called before each step; Cancelled is raised if it returns True.
        memo: the results of earlier runs, by default those of this process.
        key: identifies the content of `program`, as the digest of its file does; by default
            computed.
    """
    now = Result(program, key or program_key(program))
    memory = memo_of(now.key, program) if memo is None else memo
    validation = None
    if check:
        from explorer.passes.validate import Validation

        validation = Validation(program)
    snapshots: list[Snapshot] = []
    for number, step in enumerate(steps):
        if cancelled is not None and cancelled():
            raise Cancelled(f"stopped before the step {step.name!r}", where=step.name)
        if progress is not None:
            progress(step.name, number, len(steps))
        with (
            blame_user_passes(step.name, changed_by_user_passes(snapshots)),
            cancellable(cancelled),
            reporting_to(progress),
        ):
            result, is_cached = _run_step(now, step, device_key, memory)
        checked = None if validation is None else validation.of(program, result.program)
        own, seconds = isinstance(step.run, UserPass), result.seconds
        snapshots.append(
            Snapshot(
                step.name, step.stage, program, result.program, seconds, is_cached, checked, own
            )
        )
        program, now = result.program, result
    if progress is not None and steps:
        progress(steps[-1].name, len(steps), len(steps))
    return program, tuple(snapshots)


def steps_content(steps: Sequence[Step]) -> Content | None:
    """Return the content of the steps, equal in every process; None if a step has none."""
    all_memoizable = all(getattr(step.run, "remembered", True) for step in steps)
    return pass_content(tuple(steps)) if all_memoizable else None


def _step_key(step: Step, device_key: str | None) -> str | None:
    run = pass_key(step.run)
    if run is None or device_key is None:
        return None
    return _join_keys(step.name, step.stage.name, run, device_key)


def _join_keys(*parts: str) -> str:
    return blake2b("\n".join(parts).encode(), digest_size=24).hexdigest()


def _run_step(
    before: Result, step: Step, device_key: str | None, memory: Memo
) -> tuple[Result, bool]:
    """Return the result of a step, from the memo if possible.

    The memo is searched by the steps that led here, then by the content of the input; content keys
    are only computed if the step has run before. A result is not memoized if the step has no key,
    or if the step changed something that it refers to.
    """
    step_key = _step_key(step, device_key)
    key = _join_keys(before.key, step_key or f"unremembered {next(_serial)}")
    memoized = None
    if step_key is not None:
        memoized = memory.get(key) or _find_same_content(before, step_key, memory)
    if memoized is not None:
        counters.add("pass_hits")
        return memory.put(key, memoized), True
    program, start = before.program, perf_counter()
    after = step.run(program)
    if after.stage != step.stage:
        after = replace(after, stage=step.stage)
    input_result = replace(before, before=None)  # without its own history
    result = Result(after, key, perf_counter() - start, input_result)
    counters.add("pass_runs")
    if step_key is None or _step_key(step, device_key) != step_key:
        return result, False
    for n in count():
        if memory.get((step_key, n)) is None:
            memory.put((step_key, n), result)
            break
    return memory.put(key, result), False


def _find_same_content(before: Result, step_key: str, memory: Memo) -> Result | None:
    """Return the step's result for another program with the same content."""
    for n in count():
        candidate = memory.get((step_key, n))
        if candidate is None:
            return None
        candidate_input = candidate.before
        if candidate_input is not None and _are_alike(candidate_input, before):
            return candidate
    raise AssertionError("counting ends where nothing is kept")


def _are_alike(first: Result, other: Result) -> bool:
    """Return True if the programs have the same content."""
    if first.program is other.program:
        return True
    return (
        not differ_beside_bindings(first.program, other.program) and first.content == other.content
    )
