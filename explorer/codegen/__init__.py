"""Tile programs as machine code, statement by statement: no template per operator."""
