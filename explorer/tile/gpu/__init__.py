"""Tile programs of GPUs: one task is a thread block. A printer finds nothing left to decide."""
