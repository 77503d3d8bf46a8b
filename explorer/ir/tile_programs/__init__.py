"""Tile programs (the Roller paper's rProgram): one task of a kernel as loops over tiles.

The loops work on flat buffers. Tile programs are what is compiled: named rewrites bring them from
their plain form to one that is printed statement by statement.

All addresses are affine offsets into a buffer, in elements; edge tiles are clipped by `Span`, never
by the addresses.
"""
