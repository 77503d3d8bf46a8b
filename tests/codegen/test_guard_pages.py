"""No kernel reads or writes outside of its buffers: a page that may not be touched lies on each
side of every one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.guard_pages import DONE, SIDES, Pages
from tests.codegen.guarded_cases import FAMILIES

FEW = ("written", "windows")  # the other families by `make test-all`


class Child:
    """A process that runs one family after the other: what it needs is loaded once. After one that
    ended it the next family has a new one.
    """

    def __init__(self, errors: Path) -> None:
        self.errors = errors
        self.process: subprocess.Popen[str] | None = None

    def run(self, family: str) -> str:
        """Why it ended in the middle of the family; nothing where it did not."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.codegen.guard_pages"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors.open("w"),
                text=True,
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        print(family, file=self.process.stdin, flush=True)
        last = "nothing ran"
        for line in self.process.stdout:
            if line.strip() == DONE:
                return ""
            last = line.strip()
        code, self.process = self.process.wait(), None
        return f"{last} ({code}): {self.errors.read_text()[-600:]}"

    def close(self) -> None:
        if self.process is not None:
            self.process.communicate()  # no more families
            assert self.process.returncode == 0


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    found = Child(tmp_path_factory.mktemp("guarded") / "errors")
    yield found
    found.close()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "family",
    [pytest.param(f, marks=() if f in FEW else pytest.mark.exhaustive) for f in FAMILIES],
)
def test_no_kernel_leaves_its_buffers(child: Child, family: str) -> None:
    assert not child.run(family)


@pytest.mark.few(1)
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
