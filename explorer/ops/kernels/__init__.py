"""Semantics of loop-level kernels in NumPy, and their well-formedness."""
