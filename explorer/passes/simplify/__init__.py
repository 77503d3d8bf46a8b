"""Simplifications: dead code, common subexpressions, constants, bound symbols, folded scales."""
