"""Kernels made of kernels: merged, normalised, rebased, under canonical names."""
