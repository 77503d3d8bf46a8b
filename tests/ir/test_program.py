"""Constants of a program are told apart by what they hold."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from explorer.ir import program
from explorer.ir.program import Constant


def test_a_large_constant_is_told_apart_by_every_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Constant(np.arange(8)).digest
    monkeypatch.setattr(program, "CHUNK_BYTES", 64)
    assert Constant(np.arange(8)).digest == small  # of one part
    array = np.arange(40)
    found = {Constant(array).digest, Constant(array.reshape(8, 5)).digest}
    for place in range(40):
        other = array.copy()
        other[place] = -1
        found.add(Constant(other).digest)
    assert len(found) == 42 and Constant(array.copy()).digest in found


AT_EXIT = """
import numpy as np
from explorer.cache import background_writer
from explorer.ir import program

program.CHUNK_BYTES = 64
constant = program.Constant(np.arange(40))
background_writer.later(lambda: print(constant.digest))
"""


def test_a_large_constant_is_hashed_while_the_interpreter_shuts_down() -> None:
    """A short process stores its results at exit, when no thread can be started."""
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True)
    assert "Error" not in done.stderr and len(done.stdout.strip()) == 32
