"""Rammer's pictures: the brick wall, its waits, its policies."""
