"""Operators whose shapes or slices only a run knows: the host computes them."""
