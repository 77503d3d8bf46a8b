"""Tile programs of GPUs: one task is a thread block, with every decision made before printing."""
