"""Tile programs as machine code: one generator, no template per operator."""
