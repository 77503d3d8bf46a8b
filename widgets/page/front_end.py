"""Scripts and styles of the explorer as two texts, and the still picture of a saved notebook.

The texts are joined from `canvas/` without a build step.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from html import escape
from pathlib import Path

from widgets.draw import theme

CANVAS = Path(__file__).parent.parent / "canvas"
MODULES = (
    "dom",
    "host",
    "link",
    "paint",
    "see",
    "code",
    "linked",
    "edit",
    "kernel",
    "flow",
    "graph",
    "wall_data",
    "wall_draw",
    "wall_hand",
    "wall",
    "knobs",
    "inspector",
    "strip",
    "mini",
    "ended",
    "sheets",
    "words",
    "keep",
    "player",
    "chart",
    "stepper",
    "tuning",
    "weld",
    "sides",
    "matches",
    "switches",
    "settings",
    "rooms",
    "room",
    "shared",
    "house",
    "still",
)  # each imports only from those before it
ENTRIES = (
    "render: still.over(house.render)",
    "show: house.show",
    "mount: house.mount",
    "mountRoom: room.mountRoom",
    "fileHost: host.fileHost",
    "questionKey: host.questionKey",
    "scrolls: dom.scrolls",
    "chartInto: chart.chartInto",
)
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (function|const) (\w+)", re.MULTILINE)
_DEFAULT = re.compile(r"^export default \{[^}]*\};\n", re.MULTILINE)
NAME = "ironworks-still"
HOW = "A still picture: run the cell to explore it."
OWN = f"> .jp-OutputArea-output > .{NAME}"  # not one in an Output inside
STYLE = f"""
.jp-OutputArea-child:has({OWN}:not([hidden])) + .jp-OutputArea-child,
.jp-OutputArea-child:has({OWN}[hidden]) {{ display: none }}
.{NAME} img {{ display: block; max-width: 100%; background: #fff }}
.{NAME} p, .{NAME} summary {{ font: 13px/1.5 system-ui, sans-serif; margin: 4px 0 }}
"""


@cache
def script() -> str:
    """Return one ES module with the default export `{render, show, mount, fileHost}`."""
    return "\n".join(map(_module, MODULES)) + f"\nexport default {{ {', '.join(ENTRIES)} }};\n"


def _module(name: str) -> str:
    """Return a module as a function that is called at once; its exports are one object."""
    code = _DEFAULT.sub("", text(f"{name}.js"))
    exports = ", ".join(name_of_export for _, name_of_export in _EXPORT.findall(code))
    body = _EXPORT.sub(r"\1 \2", _IMPORT.sub(r"const \1 = \2;", code))
    return f"const {name} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();"


@cache
def styles() -> str:
    """Return the tokens of theme.py, then the layout."""
    return theme.css() + text("house.css")


def text(name: str) -> str:
    """Return the text of a file in `canvas/`."""
    return (CANVAS / name).read_text(encoding="utf-8")


def still_html(model_id: str, drawing: str, words: str) -> str:
    """Return a drawing as an image, its description, and its table behind a fold."""
    source = b64encode(drawing.encode()).decode()
    head, _, table = words.partition("\n")
    image = f'<img alt="{escape(head)}" src="data:image/svg+xml;base64,{source}">'
    folded = f"<details><summary>Table</summary><pre>{escape(table)}</pre></details>"
    shown = f"{image}<p>{HOW}</p>{folded if table else ''}"
    return f'<div class="{NAME}" data-of="{escape(model_id)}"><style>{STYLE}</style>{shown}</div>'
