"""Processes that begin anew read the script again that began them: what it does outside of its
guard, each of them would do.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import FrameType

from explorer.errors import BadOption

GUARD = 'if __name__ == "__main__":'


def check_guarded() -> None:
    """Raises BadOption where a script's own line, outside of its guard, leads here."""
    frame = _line_of_main()
    if frame is None or "__file__" not in frame.f_globals:  # a cell, or a prompt: nothing is read
        return
    file = Path(frame.f_code.co_filename)
    try:
        tree = ast.parse(file.read_text("utf-8"))
    except (OSError, ValueError):
        raise BadOption(
            f"the processes of a sweep read the script again that begins it, and {file.name} is no "
            "file: put it into one",
            where="sweep",
        ) from None
    blocks = [(s.lineno, s.end_lineno or 0) for s in tree.body if _is_guard(s)]
    if not any(first <= frame.f_lineno <= last for first, last in blocks):
        raise BadOption(
            f"line {frame.f_lineno} of {file.name} begins a sweep where every process of it would "
            f"begin another: put it under {GUARD}",
            where="sweep",
        )


def _line_of_main() -> FrameType | None:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__":
            return frame
        frame = frame.f_back
    return None


def _is_guard(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.If):
        return False
    names = {n.id for n in ast.walk(statement.test) if isinstance(n, ast.Name)}
    return "__name__" in names
