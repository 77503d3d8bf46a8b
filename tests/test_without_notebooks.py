"""The compiler alone, as a worker of a cluster has it: without Jupyter, and what else draws."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BLOCKED = """
import sys

sys.modules.update(dict.fromkeys({names!r}))
from explorer.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


def names(requirements: list[str]) -> set[str]:
    """Of what is imported."""
    return {re.split(r"[<>=\[]", r)[0].replace("-", "_") for r in requirements}


DRAWS = names(PROJECT["optional-dependencies"]["notebook"])


def test_nothing_that_draws_is_needed_by_the_compiler() -> None:
    assert {"jupyterlab", "plotly", "anywidget"} <= DRAWS
    assert not DRAWS & names(PROJECT["dependencies"])
    for path in (ROOT / "explorer").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found = {node.module or ""}
            else:
                continue
            assert not {name.partition(".")[0] for name in found} & DRAWS, path


@pytest.mark.exhaustive
@pytest.mark.slow
def test_models_are_compiled_and_swept_and_what_draws_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "ironworks.py").write_text(BLOCKED.format(names=sorted(DRAWS)))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(tmp_path / "ironworks.py"), *words]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    swept = run("sweep", "zoo:tiny_skip", "--vary", "target=v100,a100", "--json")
    assert swept.returncode == 0, swept.stderr
    assert len(json.loads(swept.stdout)["rows"]) == 2
    for words in (("report", "zoo:tiny_skip", "-o", str(tmp_path / "a.html")), ("lab",)):
        refused = run(*words)
        assert refused.returncode == 2 and "Traceback" not in refused.stderr
        assert "pip install 'ironworks[notebook]'" in refused.stderr
