"""Symbolic extents: sympy expressions with bounds, printed and compiled."""
