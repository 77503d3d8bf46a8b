"""Staging of Python's `if`, `while` and `for` on traced values by rewriting the source."""
