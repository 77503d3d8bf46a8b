"""What a first compile loads, in a process of its own: few modules, and of the tools what it needs.

Each folder loads what a program on a CPU without gradients, loops and convolutions needs, and the
rest when it is first asked for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

MOST = 350  # modules of ours, with an empty cache; 343 when written
MOST_FROM_CACHE = 300  # when the program is on disk; 287 when written
SCRIPT = """
import json, sys
import explorer
explorer.compile("zoo:tiny_bert")
print(json.dumps(sorted(sys.modules)))
"""


def loaded(cache: Path) -> list[str]:
    """The modules of a process that compiles a model, with this cache."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "IRONWORKS_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    modules: list[str] = json.loads(done.stdout)
    return modules


def test_a_first_compile_loads_few_modules_and_a_second_one_no_compiler(tmp_path: Path) -> None:
    first, second = loaded(tmp_path / "cache"), loaded(tmp_path / "cache")
    ours = [[m for m in found if m.startswith("explorer.")] for found in (first, second)]
    assert len(ours[0]) <= MOST, "load it where it is used, or raise the number with a reason"
    assert len(ours[1]) <= MOST_FROM_CACHE
    assert not any(m.startswith("widgets") for m in first)
    assert "numba" in first and "networkx" not in first
    assert "numba" not in second  # code from the cache needs LLVM's loader alone
    assert "explorer.transforms.autodiff.transform" not in first
    assert "explorer.runtime.planning.plan" not in first
