"""Former name of `explorer.rammer.manual_moves`, which still works for one release."""

from __future__ import annotations

from typing import Any
from warnings import warn

from explorer.rammer import manual_moves

RENAMED = {"ByHand": "PolicyWithMoves", "Broken": "BrokenDependency", "moved": "apply_move"}


def __getattr__(name: str) -> Any:
    """Return an object of `manual_moves` by its former name, with a DeprecationWarning."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    current = RENAMED.get(name, name)
    warn(
        f"explorer.rammer.moved_by_hand.{name} is explorer.rammer.manual_moves.{current} now",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(manual_moves, current)
