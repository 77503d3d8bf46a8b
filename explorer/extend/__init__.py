"""Extensions by users: plug-ins by entry point or from a file, and policies under their names.

Passes and operators of users are registered below, where the pipeline and the operator table are.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explorer.extend.loading import GROUP, device, enters, is_known, load, names

__all__ = ["GROUP", "device", "enters", "is_known", "load", "names"]


def __getattr__(name: str) -> Any:
    """Load what loads plug-ins when it is first used."""
    if name in __all__:
        return getattr(import_module("explorer.extend.loading"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
