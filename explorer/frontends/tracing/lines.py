"""Source lines of the user's Python being traced."""

from __future__ import annotations

import contextlib
import functools
import linecache
import sys
from dataclasses import dataclass
from pathlib import Path

OURS = str(Path(__file__).parents[2])  # the folder of the package `explorer`
BETWEEN = (OURS, contextlib.__file__, functools.__file__)
AS_USERS = tuple(  # treated as user code: the zoo's models, losses and optimizers
    str(Path(OURS, *folder)) for folder in (("frontends", "zoo", "control_flow"), ("training",))
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of Python: the file's name without its folder, the number, and the text."""

    file: str
    number: int
    text: str

    def __str__(self) -> str:
        """Return `file:number`."""
        return f"{self.file}:{self.number}"


def calling_line() -> Line:
    """Return the innermost user line on the stack.

    Lines of this package and of the standard library's wrappers are skipped, except for the zoo's
    models and the optimizers.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_between(frame.f_code.co_filename):
        frame = frame.f_back
    path, number = frame.f_code.co_filename, frame.f_lineno
    return Line(_label(path), number, linecache.getline(path, number).strip())


def _is_between(path: str) -> bool:
    return path.startswith(BETWEEN) and not path.startswith(AS_USERS)


def _label(path: str) -> str:
    """Return the file's name; "cell" for a notebook cell, which has a temporary file name."""
    if "ipykernel_" in path or path.startswith("<ipython"):
        return "cell"
    return Path(path).name
