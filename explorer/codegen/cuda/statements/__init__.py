"""Statements of many lines: register tiles, reductions, pieces of matrices."""
