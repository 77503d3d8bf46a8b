"""A folder holds what one can keep in mind: fifteen modules, then it has sub-rooms."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath

from tests.architecture.imports import ROOT, modules

MOST = 15


def sizes() -> Counter[str]:
    """Modules by their folder, without its `__init__`."""
    files = [p.relative_to(ROOT) for p in modules().values()]
    return Counter(str(PurePath(*p.parts[:-1])) for p in files if p.name != "__init__.py")


def test_no_folder_has_more_modules_than_one_can_keep_in_mind() -> None:
    large = {folder: n for folder, n in sizes().items() if n > MOST}
    assert not large
