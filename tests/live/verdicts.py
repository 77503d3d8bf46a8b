"""Trials of the page's verdicts: `python -m tests.live.verdicts [TRIALS] [node|chromium] [TASKS]`.

In each trial a kernel races itself, and one with a tenth more tasks, for half a second each. A task
takes a microsecond or two.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from explorer.runtime.device_program import instructions as isa
from tests.live.conftest import READ
from tests.live.hand_modules import KERNELS
from tests.live.hand_programs import HandProgram
from widgets.live import scripts

HERE = Path(__file__).parent
SIMULATED = (HERE / "simulated_machine.js").read_text()
TRIALS = (HERE / "trials.js").read_text()


def burning(tasks: int = 20, rounds: int = 1000) -> dict[str, Any]:
    """A program of one kernel: about 30 microseconds of arithmetic."""
    rows = [(isa.RUN, 0, 0, tasks, 0)]
    program = HandProgram(np.zeros(64, np.int64), rows, [("burn", [0, ("n", rounds)])])
    return {"program": program.portable(), "tasks": tasks}


def in_node(given: dict[str, Any]) -> dict[str, Any]:
    """The trials in Node."""
    with tempfile.TemporaryDirectory() as folder:
        joined = scripts.worker_script().removesuffix("worker.serve(self);\n")
        Path(folder, "live.mjs").write_text(
            f"{joined}\nexport {{ {', '.join(scripts.WORKER_MODULES)} }};\n"
        )
        Path(folder, "script.mjs").write_text(READ + TRIALS)
        done = subprocess.run(
            ["node", str(Path(folder, "script.mjs"))],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            check=True,
        )
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def in_chromium(given: dict[str, Any], path: str) -> dict[str, Any]:
    """The trials in a Worker of a page from a file."""
    from tests.browser.driver import Tab, chromium_browser

    joined = scripts.worker_script().removesuffix("worker.serve(self);\n")
    names = ", ".join(scripts.WORKER_MODULES)
    head = (
        "const bytes = t => Uint8Array.from(atob(t), c => c.charCodeAt(0)), say = postMessage, "
        f"given = {json.dumps(given)};\n"
    )
    body = f"{joined}\nconst live = {{ {names} }};\n{head}(async () => {{ {TRIALS} }})();"
    page = f"""<!doctype html><meta charset="utf-8"><script>
const source = {json.dumps(body)};
window.found = new Promise((done, fail) => {{
  const worker = new Worker(URL.createObjectURL(new Blob([source], {{ type: "text/javascript" }})));
  worker.onmessage = event => done(event.data); worker.onerror = event => fail(event.message);
}});</script>"""
    with tempfile.TemporaryDirectory() as folder, chromium_browser(path) as browser:
        Path(folder, "page.html").write_text(page)
        tab = Tab(browser)
        tab.page.goto(Path(folder, "page.html").as_uri())
        found: dict[str, Any] = tab.page.evaluate("window.found")
        assert not tab.outside and not tab.faults, (tab.outside, tab.faults)
        tab.close()
    return found


def main(trials: int = 100, where: str = "node", tasks: int = 20, seconds: float = 0.5) -> None:
    """Print how often each verdict was given."""
    given = {
        "code": b64encode(KERNELS).decode(),
        "trials": trials,
        "seconds": seconds,
        **burning(tasks),
    }
    if where == "node":
        found = in_node(given)
    else:
        path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        assert path, "there is no Chromium"
        found = in_chromium(given, path)
    for name, rows in found.items():
        verdicts = Counter(verdict for verdict, _, _ in rows)
        ratios = sorted(ratio for _, ratio, _ in rows)
        longest = max(time for _, _, time in rows) / 1e3
        print(
            f"{where}, {tasks} tasks, {name}: {dict(verdicts)}, "
            f"ratios {ratios[0]:.3f} to {ratios[-1]:.3f}, median {ratios[len(ratios) // 2]:.3f}, "
            f"longest trial {longest:.2f} s"
        )


if __name__ == "__main__":
    count, place, size = (*sys.argv[1:4], *("100", "node", "20")[len(sys.argv) - 1 :])
    main(int(count), place, int(size))
