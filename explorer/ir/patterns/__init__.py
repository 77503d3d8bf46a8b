"""Structural pattern matching on kernels: contractions, scatters, moving ranges, regions."""
