"""Decisions of the systems: each one as a value, with its losing candidates."""
