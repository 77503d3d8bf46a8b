"""Extensions by others: by entry point, from a file, and policies under their own names."""

from explorer.plugins.loading import GROUP, device, enters, is_known, load, names

__all__ = ["GROUP", "device", "enters", "is_known", "load", "names"]
