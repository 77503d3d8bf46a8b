"""Scripts of a live page as texts: the Worker's, and the panel's.

Modules of `widgets/live/`, and those of `widgets/canvas/` that they import, are joined without a
build step. Each module becomes a function that is called at once, as in `widgets.page.front_end`.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

LIVE = Path(__file__).parent
CANVAS = LIVE.parent / "canvas"
WORKER_MODULES = ("program", "answers", "measure", "stamped_wall", "team", "webgpu", "worker")
PANEL_MODULES = (
    "dom",
    "paint",
    "wall_data",
    "wall_draw",
    "wall_hand",
    "wall",
    "live",
    "packed",
    "live_page",
)  # each imports only from those before it
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "(?:\.|\.\./canvas)/(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (function|const) (\w+)", re.MULTILINE)


@cache
def worker_script() -> str:
    """Return the script of the Worker, for a Blob: it needs no other file."""
    return f"{_join(WORKER_MODULES)}\nworker.serve(self);\n"


@cache
def panel_script() -> str:
    """Return an ES module that exports `startLive`."""
    return f"{_join(PANEL_MODULES)}\nexport const startLive = live.startLive;\n"


@cache
def page_script(present: tuple[str, ...] = ()) -> str:
    """Return a script that defines `ironworksLive`: `{showLive, worker, ...}`.

    `worker` is the Worker's script, which all programs share.

    `present` are modules of `canvas/` that the page's script has already.
    """
    modules = _join(tuple(name for name in PANEL_MODULES if name not in present))
    worker = json.dumps(worker_script()).replace("<", "\\u003c")  # nothing may end the script
    exports = f"{{ startLive: live.startLive, ...packed, ...live_page, worker: {worker} }}"
    return f"const ironworksLive = (() => {{\n{modules}\nreturn {exports};\n}})();\n"


@cache
def panel_styles() -> str:
    """Return the layout of the panel; its colours are variables of `widgets.draw.theme`."""
    return (LIVE / "live.css").read_text(encoding="utf-8")


def _join(names: tuple[str, ...]) -> str:
    return "\n".join(map(_as_function, names))


def _as_function(name: str) -> str:
    """Return a module as a function that is called at once; its exports are one object."""
    folder = LIVE if (LIVE / f"{name}.js").exists() else CANVAS
    code = (folder / f"{name}.js").read_text(encoding="utf-8")
    exports = ", ".join(export for _, export in _EXPORT.findall(code))
    body = _EXPORT.sub(r"\1 \2", _IMPORT.sub(r"const \1 = \2;", code))
    return f"const {name} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();"
