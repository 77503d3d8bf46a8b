"""What loop-level kernels mean, in NumPy, and when they are well formed."""
