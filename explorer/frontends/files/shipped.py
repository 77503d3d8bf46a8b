"""Where the files lie that come along with the package: small models, and the notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
IN_CHECKOUT = {"models": "tests/data", "notebooks": "notebooks"}
IN_WHEEL = "share/ironworks"  # below the folder that an installation keeps data in


def shipped(kind: str) -> Path:
    """The folder of "models" or "notebooks": the checkout's own, or the one that was installed;
    where there is neither, a folder that does not exist.
    """
    own = CHECKOUT / IN_CHECKOUT[kind]
    return own if is_checkout() else next(_installed(f"{IN_WHEEL}/{kind}"), own)


def is_checkout() -> bool:
    """Whether this package runs out of its repository."""
    return (CHECKOUT / "pyproject.toml").is_file()


def _installed(folder: str) -> Iterator[Path]:
    """From the list of its files that an installation keeps, wherever its data went."""
    try:
        files = distribution("ironworks").files or ()
    except PackageNotFoundError:
        return
    for file in files:
        if file.as_posix().rpartition("/")[0].endswith(folder):
            yield Path(str(file.locate())).resolve().parent
