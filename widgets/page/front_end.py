"""Scripts and styles of the explorer as two texts, joined from `canvas/` without a build step."""

from __future__ import annotations

import re
from functools import cache
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
