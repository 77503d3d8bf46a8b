"""Structural pattern matching on kernels: contractions, windows, running reductions, regions."""
