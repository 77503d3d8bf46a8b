"""Operators whose places are data."""
