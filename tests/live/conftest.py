"""Modules of the live page, run in Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from widgets.live import scripts

SECONDS = 120
READ = """
import { readFileSync } from "node:fs";
import * as live from "./live.mjs";
const given = JSON.parse(readFileSync(0, "utf-8"));
const bytes = text => Uint8Array.from(Buffer.from(text, "base64"));
const text = bytes => Buffer.from(bytes).toString("base64");
const say = value => process.stdout.write(JSON.stringify(value));
"""
Script = Callable[..., Any]


def live_module() -> str:
    """The Worker's modules as one that exports them."""
    names = ", ".join(scripts.WORKER_MODULES)
    joined = scripts.worker_script().removesuffix("worker.serve(self);\n")
    return f"{joined}\nexport {{ {names} }};\n"


@pytest.fixture(scope="session")
def in_node(tmp_path_factory: pytest.TempPathFactory) -> Script:
    """A function that runs a script with `live`, the modules, and `given`; returns what it says."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the scripts of the live page were not run")
    folder: Path = tmp_path_factory.mktemp("live")
    (folder / "live.mjs").write_text(live_module())

    def run(script: str, given: object = None, options: tuple[str, ...] = ()) -> Any:
        path = folder / "script.mjs"
        path.write_text(READ + script)
        done = subprocess.run(
            [node, *options, str(path)],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout) if done.stdout else None

    return run
