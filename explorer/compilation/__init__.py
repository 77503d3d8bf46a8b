"""A compiled model and its methods."""

from explorer.compilation.compilation import Compilation

__all__ = ["Compilation"]
