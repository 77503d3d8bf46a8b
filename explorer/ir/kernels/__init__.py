"""Kernels: fusion, normal form, canonical names, and the patterns that a kernel is matched with."""
