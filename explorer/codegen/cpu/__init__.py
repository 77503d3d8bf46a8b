"""Tile programs as the Python of a kernel for a CPU, statement by statement."""
