"""No kernel reads or writes outside of its buffers: a page that may not be touched lies on each
side of every one.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tests.codegen.guard_pages import SIDES, Pages
from tests.codegen.guarded_cases import FAMILIES


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)


@pytest.mark.parametrize(
    "family",
    [pytest.param(f, marks=pytest.mark.exhaustive if f == "products" else ()) for f in FAMILIES],
)
def test_no_kernel_leaves_its_buffers(family: str) -> None:
    done = run("tests.codegen.guard_pages", family)
    last = done.stdout.splitlines()[-1:] or ["nothing ran"]
    assert done.returncode == 0, f"{last[0]} ({done.returncode}): {done.stderr[-600:]}"


@pytest.mark.parametrize("side", SIDES)
def test_a_guard_page_ends_the_process(side: str) -> None:
    """One element past the end, or before the beginning, is the page that may not be touched."""
    step = 1 if side == "end" else -1
    text = (
        "import ctypes, numpy as np; from tests.codegen.guard_pages import Pages; "
        f"p = Pages({side!r}); x = p.place(np.arange(7, dtype=np.float32)); "
        f"at = x.ctypes.data + {24 if side == 'end' else 0}; "
        "print(ctypes.c_float.from_address(at).value, flush=True); "
        f"ctypes.c_float.from_address(at + {4 * step}).value"
    )
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.strip() == ("6.0" if side == "end" else "0.0")
    assert done.returncode < 0


def test_placed_arrays_keep_their_values() -> None:
    for side in SIDES:
        pages, x = Pages(side), np.arange(5001, dtype=np.float64)
        np.testing.assert_array_equal(pages.place(x), x)
