"""Every error that a user can meet.

Each is one sentence; its fields repeat the sentence in parts, for the shell's ``--json`` and for
the notebook's error card. Any other exception that is raised while Ironworks works becomes an
InternalFault, whose sentence does not blame the user's input.

Sentences quote names from untrusted files: this module alone makes them safe to show and cuts them
to a readable length.
"""

from __future__ import annotations

import os
import re
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
    "BadTarget",
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
LISTED = re.compile(r"\b(no|none|not a|unknown)\b")  # a name that is not among those there are
LONGEST_PART = 4000  # `expected` may list every name that there is


def printable(text: str, longest: int = LONGEST_SENTENCE) -> str:
    r"""Return the text on one line, at most `longest` characters: its beginning and its end.

    Characters that would steer a terminal or turn the direction of reading appear as `\x1b` or
    `\u202e`.
    """
    line = " ".join(_cut(text, longest).split())
    if line.isprintable():
        return line
    return _cut("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line), longest)


def _cut(text: str, longest: int) -> str:
    """Return a text without its middle if it is longer than `longest`."""
    half = (longest - 3) // 2
    return text if len(text) <= longest else f"{text[:half]} … {text[-half:]}"


class IronworksError(Exception):
    """An error as one sentence and in parts: where, expected, actual, what to try."""

    def __init__(
        self,
        sentence: str,
        *,
        where: object = "",
        expected: object = "",
        actual: object = "",
        try_: object = "",
    ) -> None:
        """Create an error from its sentence and its parts; every part is made printable."""
        self.sentence = printable(sentence)
        self.where = printable(str(where), LONGEST_PART)
        self.expected = printable(str(expected), LONGEST_PART)
        self.actual = printable(str(actual), LONGEST_PART)
        self.try_ = printable(str(try_), LONGEST_PART)
        super().__init__(self.sentence)

    def __str__(self) -> str:
        """Return the sentence with its hint."""
        return self.sentence + self.hint

    @property
    def hint(self) -> str:
        """The correct alternative, if the sentence does not name it."""
        if self.try_:
            return f" (try: {self.try_})"
        unsaid = self.lists and self.expected and self.expected not in self.sentence
        if unsaid and not (MEANT in self.sentence and len(self.expected) > LONGEST_LIST):
            is_example = any(c in self.expected for c in "=@") or self.expected.startswith("(")
            is_list = LISTED.search(self.sentence) is not None
            word = "such as" if is_example else "there are:" if is_list else "expected:"
            return f" ({word} {self.expected})"
        return ""

    lists = False  # `expected` are the names that could have been given, or an example

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows: the sentence and lines of its cells, or the traceback."""
        shown = traceback_of(self)
        return shown.splitlines() if shown else list(_lines_of_cells(self))

    def fields(self) -> dict[str, str]:
        """Return the error for JSON: its kind, its sentence, and the parts that are not empty.

        The key of the actual value is `found`, which scripts read.
        """
        parts = {
            "error": type(self).__name__,
            "sentence": self.sentence,
            "where": self.where,
            "expected": self.expected,
            "found": self.actual,
            "try": self.try_,
        }
        return {name: part for name, part in parts.items() if part}


class BadModelFile(IronworksError):
    """The model file is missing, truncated, of another format, or breaks a rule of its format."""


class UnsupportedOperator(IronworksError):
    """The model holds an operator for which there is neither a record nor a library call."""


class TraceError(IronworksError):
    """A traced function does what only a run can decide, or what no program can express."""


class ShapeError(IronworksError):
    """Two extents that must agree differ, or a rank is wrong."""


class DtypeError(IronworksError):
    """A value has an element type that is not allowed here."""


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
    """A rule of a user's operator raised, or returned an invalid value."""


class BadPass(IronworksError):
    """A pass raised, or returned an invalid program."""


class BadPolicy(IronworksError):
    """A policy returned no candidate, or one that its transform cannot apply."""


class BadTarget(IronworksError):
    """A user's target raised, or returned an invalid answer."""


class BadSheet(IronworksError):
    """A data sheet lacks a number, or has one in another unit or out of its range."""


class BadCheckpoint(IronworksError):
    """A checkpoint of training is invalid, or belongs to another model."""


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
    """Two runtimes gave different answers to the same inputs, so their times mean nothing."""


class PeerFault(IronworksError):
    """Another runtime failed, or its process ended, while a model was raced against it."""


class SnapshotError(IronworksError):
    """A saved state or compiled model is damaged, or of an unknown version."""


class KernelCompileError(IronworksError):
    """Generated source did not compile; the kernel and its operators are named."""


class TooLarge(IronworksError):
    """A value, or a model, would take more memory or time than the limit."""


class Cancelled(IronworksError):
    """The user stopped the work; nothing has changed."""


class InternalFault(IronworksError):
    """A fault of Ironworks itself; the input is not to blame."""


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" with the known names that are spelt alike, or ""."""
    low = {each.lower(): each for each in known_names}
    wanted = name.lower()
    near = get_close_matches(wanted, low, n=3)
    alike = [SequenceMatcher(None, wanted, each).ratio() for each in near]
    near = [each for each, share in zip(near, alike) if share >= ALIKE * alike[0]]
    near = near or [n for n in low if wanted and wanted in n][:3]
    return f"; {MEANT} {' or '.join(repr(low[n]) for n in near)}?" if near else ""


def _lines_of_cells(problem: BaseException) -> Iterator[str]:
    """Yield the sentence of an error and of its causes, each with its line of a notebook's cell."""
    yield f"{type(problem).__name__}: {problem}"
    frames = [f for f in extract_tb(problem.__traceback__) if _is_cell(f.filename)]
    if frames:
        yield f"  in line {frames[-1].lineno} of the cell: {frames[-1].line}"
    if problem.__cause__ is not None and not isinstance(problem.__cause__, OSError):
        caused = list(_lines_of_cells(problem.__cause__))
        if len(caused) > 1:  # in code of a cell
            yield from ("caused by", *caused)


def _is_cell(filename: str) -> bool:
    """Return True if a file name is that of a notebook's cell."""
    return "ipykernel" in filename or filename.startswith("<ipython-input")


def fault(problem: Exception, doing: str) -> IronworksError:
    """Return the error to raise from `problem`, an exception raised while `doing` something.

    A user's error is returned unchanged, and a lack of memory is TooLarge. Anything else is a fault
    of Ironworks; its sentence names the problem's notes too.
    """
    match problem:
        case IronworksError():
            return problem
        case MemoryError():
            return TooLarge(f"there is not enough memory for {doing}", where=doing)
    doing = ", in ".join((doing, *getattr(problem, "__notes__", ())))
    cause = f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
    return InternalFault(
        f"a fault of Ironworks in {doing}, not of your input ({cause}); "
        f"report it with what `ironworks bug-report` says; {DEBUG}=1 shows the traceback",
        where=doing,
    )


def traceback_of(problem: BaseException) -> str:
    """Return the traceback of a fault of Ironworks if IRONWORKS_DEBUG=1 asks for it, else ""."""
    ours = not isinstance(problem, IronworksError) or isinstance(problem, InternalFault)
    if not ours or os.environ.get(DEBUG, "0") in ("", "0"):
        return ""
    return "".join(format_exception(problem))
