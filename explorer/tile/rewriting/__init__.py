"""The rewrites of tile programs, one a file, and the loop form that they choose."""
