"""What a hosted visitor's machine is made of: each line of its build is one that works here."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BINDER = ROOT / "binder"


@pytest.mark.exhaustive
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
    """In full: behind `-r` a build would install all of them again at every commit."""
    assert pins(BINDER / "requirements.txt") == pins(ROOT / "requirements.lock")
    assert all("==" in line for line in pins(BINDER / "requirements.txt"))


def pins(path: Path) -> list[str]:
    return [s for s in path.read_text("utf-8").splitlines() if s and not s.startswith("#")]


@pytest.mark.parametrize(
    ("limit", "threads"), [("1", "1"), ("2.0", "2"), ("0.5", "1"), (".5", "1"), ("", "1")]
)
def test_a_visitor_s_server_has_as_many_threads_as_cores(limit: str, threads: str) -> None:
    env = {**os.environ, "CPU_LIMIT": limit, "OPENBLAS_NUM_THREADS": "64"}
    start = [str(BINDER / "start"), "sh", "-c", 'echo "$OPENBLAS_NUM_THREADS $1"', "-", "a b"]
    done = subprocess.run(start, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"{threads} a b\n"


def test_make_lab_installs_all_that_the_commands_of_the_readme_need() -> None:
    assert "ironworks serve" in (ROOT / "README.md").read_text("utf-8")
    assert any(line.startswith("voila==") for line in pins(ROOT / "requirements.lock"))
