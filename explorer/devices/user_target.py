"""Guards around the answers of a user's target: each is checked, and its errors name the line.

`register` guards the classes of a target once, so that included targets are asked directly. An
answer is guarded wherever it is asked for: by a system, or by an included class that the target
extends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from numbers import Integral, Real
from typing import Any

from explorer.devices.listing import Listing, Listings
from explorer.devices.model import LevelMemory
from explorer.errors import BadOption, BadPolicy, BadTarget, Cancelled, CheckFailed
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.tile_program import TileProgram
from explorer.process.sandbox import at_definition
from explorer.process.user_code import a, shown, user_code

PASSING = (BadOption, BadPolicy, BadTarget, CheckFailed, Cancelled)  # a target may raise them
GUARDED = "guarded_by_ironworks"  # an attribute of guarded functions
END = object()


@dataclass(frozen=True, slots=True)
class Question:
    """A question that targets are asked: what its answer must be, and the check of it.

    `read` returns the answer as it is used, and raises ValueError or TypeError if it is invalid.
    """

    expected: str
    read: Callable[[Any], Any]


def _require(fact: bool) -> None:
    """Raise ValueError unless an answer is valid."""
    if not fact:
        raise ValueError


def _instance(kind: type, none: bool = False) -> Callable[[Any], Any]:
    """Return a check that an answer is an instance of a class, or None if that is allowed."""

    def read(answer: Any) -> Any:
        _require(isinstance(answer, kind) or (none and answer is None))
        return answer

    return read


def _has(*names: str, none: bool = False) -> Callable[[Any], Any]:
    """Return a check that an answer has the attributes of a protocol."""

    def read(answer: Any) -> Any:
        _require(none if answer is None else all(hasattr(type(answer), name) for name in names))
        return answer

    return read


def _count(answer: Any) -> int:
    _require(isinstance(answer, Integral) and not isinstance(answer, bool) and int(answer) >= 1)
    return int(answer)


def _microseconds(answer: Any) -> float:
    _require(isinstance(answer, Real) and not isinstance(answer, bool) and float(answer) >= 0)
    return float(answer)


def _memories(answer: Any) -> tuple[LevelMemory, ...]:
    memories = tuple(answer)
    _require(len(memories) >= 2 and all(isinstance(m, LevelMemory) for m in memories))
    _require(all(math.isfinite(m.gb_per_s) and m.gb_per_s >= 0 for m in memories))
    return memories


def _levels(answer: Any) -> range:
    _require(isinstance(answer, range) and len(answer) > 0 and min(answer) >= 1)
    return answer  # type: ignore[no-any-return]


def _steps(answer: Any) -> tuple[tuple[str, TileProgram], ...]:
    steps = tuple((name, program) for name, program in answer)
    _require(len(steps) > 0)
    _require(all(isinstance(n, str) and isinstance(p, TileProgram) for n, p in steps))
    return steps


def _source(answer: Any) -> str:
    _require(isinstance(answer, str) and bool(answer.strip()))
    return str(answer)


def _listings(answer: Any) -> Listings:
    _require(isinstance(answer, Listings) and isinstance(answer.note, str))
    for listing in (answer.llvm, answer.assembly):
        _require(isinstance(listing, Listing) and isinstance(listing.text, str))
        _require(all(isinstance(n, Integral) and int(n) >= 0 for n in listing.lines))
        _require(not listing.lines or len(listing.lines) >= len(listing.text.splitlines()))
    return answer  # type: ignore[no-any-return]


def _printed(answer: Any) -> tuple[Any, ...]:
    kernels = tuple(answer)
    for kernel in kernels:
        _require(hasattr(type(kernel), "listings") and isinstance(kernel.origins, frozenset))
        _require(all(isinstance(getattr(kernel, n), str) for n in ("name", "source", "refused")))
    return kernels


def _candidate(answer: Any) -> Candidate[Any]:
    _require(isinstance(answer, Candidate) and isinstance(answer.refused, str))
    _require(bool(answer.refused) or isinstance(answer.value, Tiling))
    _require(not math.isnan(answer.cost_us) and answer.cost_us >= 0)
    return answer  # type: ignore[no-any-return]


_TEXT = Question('a text, "" if there is nothing to say', _instance(str))
_CANDIDATE = Question("a Candidate of a Tiling with a time of 0 us or more", _candidate)
_CALL = Question("the KernelCall with its tiling", _instance(KernelCall))
QUESTIONS = {
    "memories": Question("2 LevelMemory or more, nearest first", _memories),
    "tile_levels": Question("a range of the numbers of memories, from 1", _levels),
    "tile_memory": Question("a LevelMemory", _instance(LevelMemory)),
    "most_elements": Question(
        "a whole number of 1 or more, or None",
        lambda answer: None if answer is None else _count(answer),
    ),
    "resident": Question("a whole number of 1 or more", _count),
    "tile_rules": Question("a LevelRules", _has("levels", "sizes", "rooms", "compute_us")),
    "candidates": Question("an iterator of Candidate", iter),
    "weigh": _CANDIDATE,
    "call_tiler": Question("a CallTiler", _has("__call__", "decisions")),
    "broken_rule": _TEXT,
    "why_no_tiles": _TEXT,
    "price_us": Question("microseconds: a number of 0 or more, or inf", _microseconds),
    "steps": Question("pairs of a name and a TileProgram, 1 or more", _steps),
    "print": Question("source: a text that is not empty", _source),
    "listings": Question("Listings, with a source line for each line or none", _listings),
    "printed": Question("a KernelText for each call", _printed),
    "grid_times": Question("a SheetTimes or None", _has("of", "facts", none=True)),
}
FLAGS = (
    *("uses_thread_blocks", "prints_cuda", "refines_tiles", "is_emitted", "has_resident_workers"),
    *("packs_weights", "copies_symbolic_steps", "stacks_rows_in_place", "weighs_splits"),
)
OBJECTS = ("tile_rules", "call_tiler", "grid_times")  # the systems ask these answers in turn


def check_flags(target: Any) -> None:
    """Raise BadTarget unless the flags of a target are truth values and its alignment a number."""
    name = type(target).__name__
    for flag in FLAGS:
        value = getattr(target, flag)
        if not isinstance(value, bool):
            raise BadTarget(
                f"{flag} of the target {name} is {_value(value)}, and must be True or False",
                where=flag,
                expected="True or False",
                actual=shown(value),
            )
    align = target.align_bytes
    if not isinstance(align, int) or isinstance(align, bool) or align < 1 or align & (align - 1):
        raise BadTarget(
            f"align_bytes of the target {name} is {shown(align)}, and must be a power of 2",
            where="align_bytes",
            expected="a power of 2",
            actual=shown(align),
        )


def guard(target: object) -> None:
    """Guard the questions that the classes of a target answer, except included classes."""
    for cls in type(target).__mro__:
        if _is_included(cls):
            continue
        for name, answer in tuple(vars(cls).items()):
            if name in QUESTIONS and not hasattr(answer, GUARDED):
                setattr(cls, name, _guarded(name, answer))


def _is_included(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "explorer"


def _guarded(name: str, answer: Any) -> Callable[..., Any]:
    """Return a method that asks another one, as a class holds it, and checks what it returns."""

    def checked_answer(self: Any, *arguments: Any, **named: Any) -> Any:
        query = _Query(type(self).__name__, name, _about(arguments), answer)
        with query.guarding():
            method = answer.__get__(self, type(self)) if hasattr(answer, "__get__") else answer
            value = method(*arguments, **named)
        question = _within(self.memories(*arguments)) if name == "tile_levels" else QUESTIONS[name]
        value = query.read(question, value)
        if name == "candidates":
            return _each(query, value)
        if name in OBJECTS and value is not None and not _is_included(type(value)):
            return GuardedAnswer(query, value)
        return value

    method = wraps(answer)(checked_answer) if callable(answer) else checked_answer
    setattr(method, GUARDED, True)
    return method


def _within(memories: tuple[LevelMemory, ...]) -> Question:
    """Return the question for the memories of tiles: neither registers nor the farthest one."""
    last = len(memories) - 2

    def read(answer: Any) -> range:
        levels = _levels(answer)
        _require(max(levels) <= last)
        return levels

    return Question(f"{QUESTIONS['tile_levels'].expected} to {last}", read)


def _about(arguments: tuple[Any, ...]) -> str:
    """Return the kernel that a question is about, for a sentence, else ""."""
    first = arguments[0] if arguments else None
    kernel = first.kernel if isinstance(first, KernelCall) else first
    return f" of the kernel {kernel.name!r}" if isinstance(kernel, Kernel) else ""


@dataclass(frozen=True, slots=True)
class _Query:
    """A question to a target by name, about a kernel; `function` answers it."""

    target: str
    question: str
    about: str
    function: Any

    def failed(self, words: str) -> BadTarget:
        """Return the error for an exception."""
        known_line = "" if ", at line " in words else at_definition(self.function)
        what = f"the target {self.target} failed in {self.question}{self.about}: {words}"
        return BadTarget(f"{what}{known_line}", where=self.question)

    def guarding(self) -> Any:
        """Return a context in which exceptions are attributed to the target."""
        return user_code(f"the target {self.target}", self.failed, PASSING)

    def read(self, question: Question, value: Any) -> Any:
        """Return a valid answer; raise BadTarget for another one."""
        try:
            return question.read(value)
        except Cancelled:
            raise
        except Exception:
            raise BadTarget(
                f"{self.question} of the target {self.target} returned {_value(value)}, and "
                f"must return {question.expected}{at_definition(self.function)}",
                where=self.question,
                expected=question.expected,
                actual=shown(value),
            ) from None


def _value(value: object) -> str:
    """Return the type and the text of a value, for a sentence."""
    return "None" if value is None else f"{a(value)} {shown(value)}"


def _each(query: _Query, candidates: Iterable[Any]) -> Iterator[Candidate[Any]]:
    """Yield candidates one by one, each checked."""
    while True:
        with query.guarding():
            value = next(candidates, END)  # type: ignore[call-overload]
        if value is END:
            return
        yield query.read(_CANDIDATE, value)


class GuardedAnswer:
    """An object of a user's class that a target returned; errors of its methods are attributed."""

    def __init__(self, query: _Query, answer: Any) -> None:
        """Guard an answer to a question."""
        self._query, self._answer = query, answer

    def __getattr__(self, name: str) -> Any:
        """Return an attribute; a method is guarded when it is called."""
        with self._query.guarding():
            value = getattr(self._answer, name)
        return self._guard(value) if callable(value) else value

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the answer: a tiler, which returns a tiled call."""
        return self._query.read(_CALL, self._guard(self._answer)(*arguments, **named))

    def _guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any, **named: Any) -> Any:
            with self._query.guarding():
                return function(*arguments, **named)

        return guarded

    def __eq__(self, other: object) -> bool:
        """Return True for a guard of an equal answer."""
        return isinstance(other, GuardedAnswer) and bool(self._answer == other._answer)

    def __hash__(self) -> int:
        """Return the hash of the answer."""
        return hash(self._answer)
