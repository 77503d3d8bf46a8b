"""The notebooks that come with Ironworks, and copies of them to work in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from explorer.errors import BadOption
from explorer.frontends.files.shipped import shipped_folder

TOUR = "00_tour.ipynb"


def notebooks() -> Sequence[Path]:
    """Return the notebooks in order; empty if the installation has none."""
    return sorted(shipped_folder("notebooks").glob("*.ipynb"))


def copy_notebooks(folder: Path) -> tuple[Sequence[Path], Sequence[Path]]:
    """Copy all notebooks to a folder; return the new ones and those that were there before.

    Existing files stay as they are. Raises BadOption if the folder cannot be written or if there
    are no notebooks.
    """
    originals = notebooks()
    if not originals:
        raise BadOption(
            "this installation holds no notebooks", where=str(shipped_folder("notebooks"))
        )
    old = [folder / n.name for n in originals if os.path.lexists(folder / n.name)]
    new = [folder / n.name for n in originals if folder / n.name not in old]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in new:
            shutil.copyfile(shipped_folder("notebooks") / path.name, path)
    except OSError as problem:
        raise BadOption(
            f"the notebooks cannot be copied to {folder}: {problem.strerror}", where="--copy"
        ) from problem
    return new, old
