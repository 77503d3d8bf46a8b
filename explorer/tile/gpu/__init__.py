"""Tile programs of GPUs: one task is a thread block. Today they are predictions that are shown,
checked and interpreted; a printer finds nothing left to decide.
"""
