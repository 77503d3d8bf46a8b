"""What others add: by entry point, from a file, and policies under a name of one's own."""

from explorer.plugins.loading import GROUP, device, enters, is_known, load, names

__all__ = ["GROUP", "device", "enters", "is_known", "load", "names"]
