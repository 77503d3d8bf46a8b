"""What a hosted visitor's machine is made of: each line of its build is one that works here."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BINDER = ROOT / "binder"


def test_the_checks_of_the_build_pass_and_nothing_but_installing_is_left_out(
    tmp_path: Path,
) -> None:
    lines = [line for line in (BINDER / "postBuild").read_text("utf-8").splitlines() if line]
    commands = [shlex.split(line) for line in lines if line.startswith("python ")]
    installs = [c for c in commands if c[1:3] in (["-m", "pip"], ["-m", "compileall"])]
    checks = [c for c in commands if c not in installs]
    assert len(installs) == 2 and len(checks) == 2
    for command in checks:
        done = subprocess.run(
            [sys.executable, *command[1:]],
            cwd=ROOT,
            env={**os.environ, "IRONWORKS_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    assert os.access(BINDER / "postBuild", os.X_OK)


def test_the_pins_of_the_build_are_those_of_make_lab() -> None:
    """Copied where the build looks, a relative path in them still leads to the pins."""
    asked = [
        line.split()
        for line in (BINDER / "requirements.txt").read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert asked == [["-r", "../requirements.lock"]]
    assert (BINDER / asked[0][1]).resolve() == ROOT / "requirements.lock"
