"""A compiled model, and what it answers."""

from explorer.compilation.compilation import Compilation

__all__ = ["Compilation"]
