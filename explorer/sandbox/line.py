"""The line of somebody else's code at which it failed, or is."""

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
    """The innermost line of an error that is neither ours nor of what is installed, as a sentence
    goes on with it: ", at line 3 of the cell (`x = 1 / 0`)"; empty where there is none.
    """
    found = ""
    if isinstance(problem, SyntaxError) and problem.lineno:
        return _said(str(problem.filename), problem.lineno)
    for code_file, line in _lines(problem.__traceback__):
        if _is_own(code_file):
            found = _said(code_file, line)
    return found


def now_at(thread: int) -> str:
    """The same, of where a thread is now."""
    frame: FrameType | None = sys._current_frames().get(thread)
    while frame is not None:
        if _is_own(frame.f_code.co_filename):
            return _said(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return ""


def _lines(traceback: TracebackType | None) -> Iterator[tuple[str, int]]:
    for _ in range(DEEPEST):
        if traceback is None:
            return
        yield traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        traceback = traceback.tb_next


def _is_own(file: str) -> bool:
    if file.startswith(OURS) or file.startswith(INSTALLED):
        return False
    return CELL.search(file) is not None or not file.startswith("<")


def _said(file: str, line: int) -> str:
    text = " ".join(linecache.getline(file, line).split())
    text = text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"
    where = "the cell" if CELL.search(file) else Path(file).name
    return f", at line {line} of {where}" + (f" (`{text}`)" if text else "")
