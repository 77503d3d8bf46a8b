"""Transformations of kernels: merging, normalisation, rebasing, canonical names."""
