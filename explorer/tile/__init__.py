"""Tile programs: lowered from a kernel and a tiling, then rewritten up to the printed form."""
