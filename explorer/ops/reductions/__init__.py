"""Operators that reduce axes, and what is built of those."""
