"""A warm start needs neither a compile nor Numba."""

import subprocess
import sys

SCRIPT = """
import sys
from explorer.runtime.device_program.native import native
assert native().call(0, 0, 0) > 0
print("numba" in sys.modules)
"""


def test_the_second_process_does_not_import_numba(tmp_path):
    said = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            check=True,
            timeout=120,
            capture_output=True,
            text=True,
            env={
                "PATH": "",
                "XDG_CACHE_HOME": str(tmp_path),
                "HOME": str(tmp_path),
                "PYTHONPATH": ":".join(sys.path),
            },
        ).stdout.strip()
        for _ in range(2)
    ]
    assert said == ["True", "False"]
