"""Transformations of kernels: fusion, the normal form, rebasing, canonical names."""
