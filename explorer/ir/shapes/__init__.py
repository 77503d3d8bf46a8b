"""Symbolic extents: sympy expressions, judged, printed and compiled."""
