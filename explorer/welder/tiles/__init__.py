"""Tiles of a group at every memory level: tile graphs, footprint and traffic, and the search."""
