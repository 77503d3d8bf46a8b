"""An installed wheel, away from the checkout: the command, small models, and the notebooks."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from venv import EnvBuilder

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
PARTS = ("explorer", "widgets", "notebooks", "tests/data")
FILES = ("pyproject.toml", "README.md", "LICENSE")
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]


def test_a_wheel_works_away_from_the_checkout(tmp_path: Path) -> None:
    wheel = built(tmp_path)
    ironworks = str(installed(wheel, tmp_path) / "ironworks")
    at = tmp_path / "elsewhere"
    at.mkdir()

    said = run([ironworks, "compile", "zoo:tiny_skip", "--json"], at)
    assert json.loads(said.stdout)["kernels"]["total"] > 0
    assert {p.name for p in at.iterdir()} == set()

    refused = run([ironworks, "lab"], at, code=2)
    assert "ironworks lab --copy" in refused.stderr
    mine = at / "mine" / "00_tour.ipynb"
    mine.parent.mkdir()
    mine.write_text("my own answers")
    said = run([ironworks, "lab", "--copy", "mine", "--no-open"], at)
    assert "1 were there" in said.stdout and mine.read_text() == "my own answers"
    copied = {p.name: p.read_bytes() for p in mine.parent.iterdir() if p != mine}
    given = {p.name: p.read_bytes() for p in (ROOT / "notebooks").glob("*.ipynb")}
    assert copied == {name: data for name, data in given.items() if name != mine.name}


def test_no_notebook_reads_a_file_of_the_checkout() -> None:
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert "tests/data" not in path.read_text("utf-8"), path.name


def built(home: Path) -> Path:
    """The wheel of the files that belong in it."""
    source = home / "source"
    for part in PARTS:
        ignore = shutil.ignore_patterns("__pycache__", "wrong", ".ipynb_checkpoints")
        shutil.copytree(ROOT / part, source / part, ignore=ignore)
    for name in FILES:
        shutil.copy(ROOT / name, source / name)
    run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(home), str(source)], home)
    shutil.rmtree(source)
    (wheel,) = home.glob("ironworks-*.whl")
    return wheel


def installed(wheel: Path, home: Path) -> Path:
    """The folder of commands of an environment that has the wheel, and borrows what it needs."""
    EnvBuilder(symlinks=True).create(home / "venv")
    python = home / "venv" / "bin" / "python"
    run([*PIP, f"--python={python}", "install", "--no-deps", str(wheel)], home)
    (site,) = (home / "venv" / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"))  # behind its own packages
    return python.parent


def run(command: list[str], at: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """A command in a folder outside of the checkout, whose modules it does not see."""
    own = {**os.environ, "IRONWORKS_CACHE": str(at / ".." / "cache")}
    own.pop("PYTHONPATH", None)
    done = subprocess.run(command, cwd=at, env=own, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done
