"""Line of user code at which an error was raised, or a thread is."""

from __future__ import annotations

import linecache
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

OURS = tuple(str(Path(__file__).parents[2] / room) + "/" for room in ("explorer", "widgets"))
INSTALLED = tuple({f"{sysconfig.get_path(name)}/" for name in ("stdlib", "purelib", "platlib")})
CELL = re.compile(r"ipykernel_\d+/|^<ipython-input|^<cell")
LONGEST_LINE = 60  # characters; chosen
DEEPEST = 1000  # frames looked at: a recursion without end has more; chosen


def at_line(problem: BaseException) -> str:
    """Return the innermost line of user code of an error, to end a sentence with, or "".

    An example is ", at line 3 of the cell (`x = 1 / 0`)".
    """
    line_text = ""
    if isinstance(problem, SyntaxError) and problem.lineno:
        return _at(str(problem.filename), problem.lineno)
    for code_file, line in _lines(problem.__traceback__):
        if _is_own(code_file):
            line_text = _at(code_file, line)
    return line_text


def now_at(thread: int) -> str:
    """Return the innermost line of user code that a thread executes, likewise."""
    frame: FrameType | None = sys._current_frames().get(thread)
    while frame is not None:
        if _is_own(frame.f_code.co_filename):
            return _at(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return ""


def _lines(traceback: TracebackType | None) -> Iterator[tuple[str, int]]:
    """Yield file and line of a traceback's frames."""
    for _ in range(DEEPEST):
        if traceback is None:
            return
        yield traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        traceback = traceback.tb_next


def _is_own(file: str) -> bool:
    """Return True if a file is user code: neither this package nor installed."""
    if file.startswith(OURS) or file.startswith(INSTALLED):
        return False
    return CELL.search(file) is not None or not file.startswith("<")


def _at(file: str, line: int) -> str:
    """Format a line of a file as the end of a sentence."""
    text = " ".join(linecache.getline(file, line).split())
    text = text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"
    where = "the cell" if CELL.search(file) else Path(file).name
    return f", at line {line} of {where}" + (f" (`{text}`)" if text else "")
