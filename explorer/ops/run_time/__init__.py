"""Operators whose shapes or cuts only a run knows: the host computes them."""
