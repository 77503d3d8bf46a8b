"""Tile programs: a kernel and a tiling become one, and named rewrites make it what is printed."""
