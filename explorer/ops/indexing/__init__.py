"""Operators whose indices are data."""
