"""A page from a file with the panel of live programs alone."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import numpy as np

from explorer.runtime.device_program import instructions as isa
from tests.live.hand_modules import KERNELS
from tests.live.hand_programs import HandProgram
from widgets.draw import theme
from widgets.live import scripts
from widgets.page import front_end

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; "
    "worker-src blob:; img-src data: blob:"
)


def variant(name: str, tasks: int, right: bool = True, kernel: str = "burn") -> dict[str, Any]:
    """A program of two calls; a wrong one has another word recorded."""
    words = np.zeros(32, np.int64)
    rows = [(isa.RUN, 0, 0, tasks, 0), (isa.RUN, 1, 0, 4, 0)]
    calls = [(kernel, [0, ("n", 1000)]), ("add_tasks", [8, 16])]
    program = HandProgram(words, rows, calls)
    after = program.words.copy()
    after[16:20] = np.arange(4)
    return {"name": name, "program": program.portable(), "words": after, "right": right}


def data(variants: list[dict[str, Any]]) -> dict[str, Any]:
    """The data of the page; the first word, which the burning kernel leaves, is not compared."""
    out, blobs = [], [b64encode(KERNELS).decode(), "", b64encode(bytes(32 * 8)).decode()]
    for v in variants:
        v["program"]["copies"] = [[0, ["i", 0, 8 * 16], 8 * 4]]
        v["program"]["outputs"][0] |= {"shape": [4], "bytes": 32}
        words = v["words"][16:20] + (0 if v["right"] else 1)
        blobs.append(b64encode(words.tobytes()).decode())
        recorded = [{"bytes": len(blobs) - 1, "tolerance": 0}]
        out.append(
            {
                "name": v["name"],
                "program": v["program"],
                "code": 0,
                "weights": 1,
                "recorded": recorded,
            }
        )
    return {"worker": scripts.worker_script(), "blobs": blobs, "inputs": [2], "variants": out}


def page(content: dict[str, Any], prepared: str = "", policy: str = POLICY) -> str:
    """The text of the page; `prepared` runs first. `window.walls` gets the measured walls."""
    script = scripts.panel_script().replace("export const startLive", "const startLive")
    packed = json.dumps(content).replace("</", "<\\/")
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Live</title>
<meta http-equiv="Content-Security-Policy" content="{policy}">
<style>{theme.css()}{front_end.text("house.css")}{scripts.panel_styles()}
body {{ background: var(--pane); margin: 0 }}</style></head><body class="ironworks">
<main><h1>Live</h1><div id="live"></div></main>
<script type="application/json" id="data">{packed}</script>
<script type="module">{prepared}
{script}
window.walls = [];
const content = JSON.parse(document.getElementById("data").textContent);
const onWall = wall => window.walls.push(wall);
window.live = startLive(document.getElementById("live"), content, {{ onWall }});
</script></body></html>"""
