"""Layers that repeat, found in a graph and folded, and where the nodes of every step stand."""
