"""Style, types and layers, as their own tools check them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = Path(sys.executable).parent


@pytest.mark.parametrize(
    "command", ["ruff check .", "ruff format --check .", "lint-imports", "mypy"]
)
def test_a_tool_reports_nothing(command: str) -> None:
    tool, *flags = command.split()
    done = subprocess.run([TOOLS / tool, *flags], cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr
