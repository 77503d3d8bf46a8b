"""Text without what is private: whose machine it was on, and where things lie there."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import explorer

HOMES = re.compile(r"/(?:home|Users)/[^/\s'\":,;()\[\]]+")
FOLDERS = re.compile(r"(?<![\w.~>…/])/(?:[^/\s'\":,;()\[\]]+/)+")
OURS = ("IRONWORKS_", "NUMBA_")


def without_paths(text: str) -> str:
    """The text with no folder that is outside of the packages: of a path its last name stays.

    /home/anna/m.onnx  ->  ~/m.onnx;   /data/anna/m.onnx  ->  …/m.onnx
    """
    for folder, name in _known():
        text = re.sub(rf"{re.escape(folder)}(?![\w-])", name, text)
    return FOLDERS.sub("…/", HOMES.sub("~", text))


def _known() -> list[tuple[str, str]]:
    """Folders that have a name of their own, the innermost first."""
    folders = {
        os.path.expanduser("~"): "~",
        sys.base_prefix: "<python>",
        sys.prefix: "<python>",
        str(Path(explorer.__file__).parents[1]): "<ironworks>",
    }
    found = [(f, name) for f, name in folders.items() if f.count("/") > 0 and len(f) > 1]
    return sorted(found, key=lambda each: -len(each[0]))


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The variables that are Ironworks' and Numba's; of no other even the name."""
    return {n: without_paths(v) for n, v in sorted(given.items()) if n.startswith(OURS)}
