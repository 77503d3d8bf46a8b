"""Lowering of a kernel and a tiling to the plain tile program."""
