"""Recurrent layers: hoisted input projections, merged matrix products, split loops, trip counts."""
