"""Whose code works out the tiles that are kept on disk: after a change of it they count no more."""

FOLDERS = ("roller", "tile", "cost", "passes", "ir", "ops")
