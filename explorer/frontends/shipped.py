"""Folders of files shipped with the package: small models and the notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
IN_CHECKOUT = {"models": "tests/data", "notebooks": "notebooks"}
IN_WHEEL = "share/ironworks"  # below the data folder of an installation


def shipped_folder(kind: str) -> Path:
    """Return the folder of "models" or "notebooks".

    It is the checkout's, else the installed one. If there is neither, the path does not exist.
    """
    own = CHECKOUT / IN_CHECKOUT[kind]
    return own if is_checkout() else next(_installed_folders(f"{IN_WHEEL}/{kind}"), own)


def is_checkout() -> bool:
    """Return True if the package runs from its repository."""
    return (CHECKOUT / "pyproject.toml").is_file()


def _installed_folders(folder: str) -> Iterator[Path]:
    """Yield the folders of that name in the installation's file list."""
    try:
        files = distribution("ironworks").files or ()
    except PackageNotFoundError:
        return
    for file in files:
        if file.as_posix().rpartition("/")[0].endswith(folder):
            yield Path(str(file.locate())).resolve().parent
