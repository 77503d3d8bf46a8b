"""Operators that go element by element."""
