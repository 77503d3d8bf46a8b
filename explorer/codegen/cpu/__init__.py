"""Tile programs as the Python source of a CPU kernel, statement by statement."""
