"""Statements of many lines: register tiles, reductions, matrix fragments."""
