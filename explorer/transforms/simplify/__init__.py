"""Simplifications: dead code, equal expressions, constants, symbols, scales, narrow products."""
