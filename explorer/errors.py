"""Every error that a user can meet.

Each says one sentence about the thing it is about; the fields say it again in parts, for the
shell's ``--json`` and for the notebook's error card. Whatever else is raised while Ironworks works
is an InternalFault: the sentence says so, and blames nobody's input.

Sentences quote names from files that nobody vouches for: here, and only here, they are made safe
to show and cut to a length that can be read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher, get_close_matches
from traceback import extract_tb, format_exception

__all__ = [
    "AnswerMismatch",
    "BadCheckpoint",
    "BadModelFile",
    "BadOperator",
    "BadOption",
    "BadPass",
    "BadPolicy",
    "BadSheet",
    "BoundError",
    "CacheError",
    "Cancelled",
    "CheckFailed",
    "DeviceFault",
    "DtypeError",
    "InternalFault",
    "IronworksError",
    "KernelCompileError",
    "MissingInput",
    "NoSuchDevice",
    "PeerFault",
    "ShapeError",
    "SnapshotError",
    "TooLarge",
    "TraceError",
    "UnknownInput",
    "UnsupportedOperator",
    "VerifyError",
]

LONGEST_SENTENCE = 1000
DEBUG = "IRONWORKS_DEBUG"  # set to 1, the shell and the house show where a fault of ours lies
LONGEST_LIST = 300  # characters of names behind a sentence that has a likely one; chosen
ALIKE = 0.9  # of the likeness of the name that is most alike; chosen
MEANT = "did you mean"
LONGEST_PART = 4000  # `expected` may list every name that there is


def printable(text: str, longest: int = LONGEST_SENTENCE) -> str:
    """The text on one line, with what would steer a terminal or turn the direction of reading as
    `\\x1b` or `\\u202e`; of one longer than `longest` its beginning and its end.
    """
    line = " ".join(_cut(text, longest).split())
    if line.isprintable():
        return line
    return _cut("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line), longest)


def _cut(text: str, longest: int) -> str:
    half = (longest - 3) // 2
    return text if len(text) <= longest else f"{text[:half]} … {text[-half:]}"


class IronworksError(Exception):
    """The sentence, and in parts: where it is, what was expected, what was found, what to try."""

    def __init__(
        self,
        sentence: str,
        *,
        where: object = "",
        expected: object = "",
        found: object = "",
        try_: object = "",
    ) -> None:
        self.sentence = printable(sentence)
        self.where = printable(str(where), LONGEST_PART)
        self.expected = printable(str(expected), LONGEST_PART)
        self.found = printable(str(found), LONGEST_PART)
        self.try_ = printable(str(try_), LONGEST_PART)
        super().__init__(self.sentence)

    def __str__(self) -> str:
        """The sentence, and what would have been right."""
        return self.sentence + self.hint

    @property
    def hint(self) -> str:
        """What would have been right, where the sentence does not say it."""
        if self.try_:
            return f" (try: {self.try_})"
        unsaid = self.lists and self.expected and self.expected not in self.sentence
        if unsaid and not (MEANT in self.sentence and len(self.expected) > LONGEST_LIST):
            return f" (there are: {self.expected})"
        return ""

    lists = False  # `expected` are the names that could have been given

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the sentence, and where in its cells; all of it for developers."""
        shown = traceback_of(self)
        return shown.splitlines() if shown else list(_lines_of_cells(self))

    def fields(self) -> dict[str, str]:
        """The error as JSON holds it: its kind, its sentence, and the parts that are not empty."""
        parts = {
            "error": type(self).__name__,
            "sentence": self.sentence,
            "where": self.where,
            "expected": self.expected,
            "found": self.found,
            "try": self.try_,
        }
        return {name: part for name, part in parts.items() if part}


class BadModelFile(IronworksError):
    """The model file is missing, truncated, not of its format, or breaks one of its rules."""


class UnsupportedOperator(IronworksError):
    """The model holds an operator that no record, and no library call, stands for."""


class TraceError(IronworksError):
    """A traced function does what only a run could decide, or what no program can say."""


class ShapeError(IronworksError):
    """Two extents that must agree do not, or a rank is wrong."""


class DtypeError(IronworksError):
    """A value has another element type than its place allows."""


class BoundError(IronworksError):
    """A symbolic extent is outside its bounds, or its bounds contradict each other."""


class MissingInput(IronworksError):
    """A run was not given one of the model's inputs."""


class UnknownInput(IronworksError):
    """A run was given an input that the model does not have."""


class BadOption(IronworksError):
    """An option, a flag or a plug-in is unknown, malformed or out of its range."""

    lists = True


class BadOperator(IronworksError):
    """A rule of an operator of the user's own raised, or gave what it must not."""


class BadPass(IronworksError):
    """A pass raised, or gave what is no sound program at its stage."""


class BadPolicy(IronworksError):
    """A policy returned no candidate, or one that its transform cannot take."""


class BadSheet(IronworksError):
    """A data sheet lacks a number, or has one in another unit or out of its range."""


class BadCheckpoint(IronworksError):
    """A checkpoint of training is none, or that of another model."""


class VerifyError(IronworksError):
    """A program is not well formed at its stage."""


class CheckFailed(IronworksError):
    """A pass changed the values that a program computes."""


class DeviceFault(IronworksError):
    """A GPU is missing, too old or full, or a kernel faulted or hung on it."""


class CacheError(IronworksError):
    """The cache folder is not safe to use, or is held by another process."""


class NoSuchDevice(IronworksError):
    """No data sheet and no machine here has this device's name."""

    lists = True


class AnswerMismatch(IronworksError):
    """Two runtimes gave different answers to the same inputs, so their times say nothing."""


class PeerFault(IronworksError):
    """Another runtime failed, or its process ended, while a model was raced against it."""


class SnapshotError(IronworksError):
    """A saved state or compiled model is damaged, or of a version that is not known here."""


class KernelCompileError(IronworksError):
    """Generated source did not compile; the kernel and its operators are named."""


class TooLarge(IronworksError):
    """A value, or a model, would take more memory or time than there is to spend."""


class Cancelled(IronworksError):
    """The user stopped the work; nothing that was there before has changed."""


class InternalFault(IronworksError):
    """A fault of Ironworks itself; what was asked is not to blame."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" with the known names that are spelt alike, or hold the name;
    else nothing.
    """
    low = {each.lower(): each for each in known}
    asked = name.lower()
    near = get_close_matches(asked, low, n=3)
    alike = [SequenceMatcher(None, asked, each).ratio() for each in near]
    near = [each for each, share in zip(near, alike) if share >= ALIKE * alike[0]]
    near = near or [n for n in low if asked and asked in n][:3]
    return f"; {MEANT} {' or '.join(repr(low[n]) for n in near)}?" if near else ""


def _lines_of_cells(problem: BaseException) -> Iterator[str]:
    """The sentence of an error and of what caused it, each with its line of a notebook's cell."""
    yield f"{type(problem).__name__}: {problem}"
    frames = [f for f in extract_tb(problem.__traceback__) if _is_cell(f.filename)]
    if frames:
        yield f"  in line {frames[-1].lineno} of the cell: {frames[-1].line}"
    if problem.__cause__ is not None and not isinstance(problem.__cause__, OSError):
        caused = list(_lines_of_cells(problem.__cause__))
        if len(caused) > 1:  # in code of a cell
            yield from ("caused by", *caused)


def _is_cell(filename: str) -> bool:
    return "ipykernel" in filename or filename.startswith("<ipython-input")


def fault(problem: Exception, doing: str) -> IronworksError:
    """What stopped Ironworks while it was `doing` something: an error of the user's is itself, and
    so is a lack of memory; all else is a fault of ours, which names what the problem's notes name
    besides. To be raised from `problem`.
    """
    match problem:
        case IronworksError():
            return problem
        case MemoryError():
            return TooLarge(f"there is not enough memory for {doing}", where=doing)
    doing = ", in ".join((doing, *getattr(problem, "__notes__", ())))
    found = f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
    return InternalFault(
        f"a fault of Ironworks in {doing}, not of your input ({found}); "
        f"report it with what `ironworks bug-report` says; {DEBUG}=1 shows the traceback",
        where=doing,
    )


def traceback_of(problem: BaseException) -> str:
    """Where a fault of ours lies, if IRONWORKS_DEBUG=1 asks for it; empty for other errors."""
    ours = not isinstance(problem, IronworksError) or isinstance(problem, InternalFault)
    if not ours or os.environ.get(DEBUG, "0") in ("", "0"):
        return ""
    return "".join(format_exception(problem))
