"""Check for a main guard: `spawn` re-imports the main script in each process of a sweep."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import FrameType

from explorer.errors import BadOption

GUARD = 'if __name__ == "__main__":'


def check_guarded() -> None:
    """Raise BadOption if a line of the main script outside of its main guard starts the sweep."""
    frame = _line_of_main()
    if (
        frame is None or "__file__" not in frame.f_globals
    ):  # a notebook cell or prompt: nothing is imported again
        return
    file = Path(frame.f_code.co_filename)
    try:
        tree = ast.parse(file.read_text("utf-8"))
    except (OSError, ValueError):
        raise BadOption(
            f"`spawn` imports the main script again in each process of a sweep, and {file.name} is "
            "no file: save the script to a file",
            where="sweep",
        ) from None
    blocks = [(s.lineno, s.end_lineno or 0) for s in tree.body if _is_guard(s)]
    if not any(first <= frame.f_lineno <= last for first, last in blocks):
        raise BadOption(
            f"line {frame.f_lineno} of {file.name} starts a sweep, and `spawn` would run it again "
            f"in every process of the sweep: put it under {GUARD}",
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
