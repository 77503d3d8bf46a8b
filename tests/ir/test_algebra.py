"""sympy is loaded by programs whose sizes are symbols, and by no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from explorer.ir.shapes.algebra import is_symbol, is_symbolic
from explorer.ir.shapes.dims import symbol

PROGRAM = """
import sys
import numpy as np
import explorer
import widgets

@explorer.trace
def model(x: explorer.tensor("float32", SIZE, 8)):
    return explorer.np.tanh(x) + 1.0

c = explorer.compile(model)
c.run({"x": np.zeros((2, 8), "float32")})
widgets.data(c, "stages")
sys.exit("sympy" in sys.modules)
"""


@pytest.mark.few(1)
@pytest.mark.parametrize(("size", "loads"), [(2, False), ("batch", True)])
def test_programs_of_numbers_do_not_load_sympy(
    tmp_path: Path, size: int | str, loads: bool
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("SIZE", repr(size)))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert done.returncode == int(loads) and not done.stderr, done.stderr


def test_a_symbol_is_symbolic_and_a_sum_of_it_is_no_symbol() -> None:
    n = symbol("n")
    assert is_symbol(n) and is_symbolic(n)
    assert is_symbolic(n + 1) and not is_symbol(n + 1)
    assert not is_symbolic(1) and not is_symbol("n")
