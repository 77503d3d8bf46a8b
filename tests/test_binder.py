"""What a hosted visitor's machine is made of: each line of its build is one that works here."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

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


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_every_pin_has_the_hashes_of_its_files(lock: str) -> None:
    own = [pin for pin in pins(ROOT / lock) if not pin.startswith("-r ")]
    assert len(own) >= 40
    assert all(re.fullmatch(r"[\w.-]+==\S+( --hash=sha256:[0-9a-f]{64})+", pin) for pin in own)


def pins(path: Path) -> list[str]:
    """Return the pins of a file, each on one line with its hashes."""
    text = re.sub(r" *\\\n *", " ", path.read_text("utf-8"))
    return [s for s in text.splitlines() if s and not s.startswith("#")]


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


def test_the_image_of_a_hub_installs_by_hash_and_copies_what_there_is() -> None:
    text = (ROOT / "docs" / "hub" / "Dockerfile").read_text("utf-8")
    (base,) = re.findall(r"^ARG BASE=(\S+)$", text, re.M)
    assert re.fullmatch(r"python(:3\.\d+\.\d+-[\w-]+|@sha256:[0-9a-f]{64})", base)
    assert "--require-hashes -r requirements.lock" in text
    copied = [path for line in re.findall(r"^COPY (.*)$", text, re.M) for path in line.split()[:-1]]
    assert len(copied) >= 8 and all((ROOT / path).exists() for path in copied)


def test_every_pin_that_is_installed_allows_the_oldest_python() -> None:
    """README promises it; a pin for a later one stops pip on Debian 12 (3.11.2)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    oldest = project["requires-python"].removeprefix(">=")
    allowed = {}
    for pin in pins(ROOT / "requirements.lock"):
        name = pin.partition("==")[0]
        with suppress(PackageNotFoundError):
            allowed[name] = SpecifierSet(metadata(name)["Requires-Python"] or "")
    assert len(allowed) > 50
    assert [n for n, s in allowed.items() if not s.contains(f"{oldest}.0")] == []
