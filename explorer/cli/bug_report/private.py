"""Removal of private details from text: user names, host names and folders."""

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
    """Replace each folder outside of the packages; the last name of a path stays.

    /home/anna/m.onnx  ->  ~/m.onnx;   /data/anna/m.onnx  ->  …/m.onnx
    """
    for folder, name in _named_folders():
        text = re.sub(rf"{re.escape(folder)}(?![\w-])", name, text)
    return FOLDERS.sub("…/", HOMES.sub("~", text))


def _named_folders() -> list[tuple[str, str]]:
    """Return the folders with a name of their own, the innermost first."""
    folders = {
        os.path.expanduser("~"): "~",
        sys.base_prefix: "<python>",
        sys.prefix: "<python>",
        str(Path(explorer.__file__).parents[1]): "<ironworks>",
    }
    pairs = [(f, name) for f, name in folders.items() if f.count("/") > 0 and len(f) > 1]
    return sorted(pairs, key=lambda each: -len(each[0]))


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Select the variables of Ironworks and Numba; of others not even the name is returned."""
    return {n: without_paths(v) for n, v in sorted(variables.items()) if n.startswith(OURS)}
