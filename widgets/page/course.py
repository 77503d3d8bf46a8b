"""The notebooks that come along: where they are, and a copy of them to work in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from explorer.errors import BadOption
from explorer.frontends.files.shipped import shipped

TOUR = "00_tour.ipynb"


def notebooks() -> Sequence[Path]:
    """Each, in order; none where the installation holds none."""
    return sorted(shipped("notebooks").glob("*.ipynb"))


def copied(folder: Path) -> tuple[Sequence[Path], Sequence[Path]]:
    """After: the folder is there and holds every notebook. Those that were copied, and those that
    stood there before, which stay as they are.

    Raises BadOption where nobody can write there, or there are no notebooks.
    """
    given = notebooks()
    if not given:
        raise BadOption("this installation holds no notebooks", where=str(shipped("notebooks")))
    old = [folder / n.name for n in given if os.path.lexists(folder / n.name)]
    new = [folder / n.name for n in given if folder / n.name not in old]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in new:
            shutil.copyfile(shipped("notebooks") / path.name, path)
    except OSError as problem:
        raise BadOption(
            f"the notebooks cannot be copied to {folder}: {problem.strerror}", where="--copy"
        ) from problem
    return new, old
