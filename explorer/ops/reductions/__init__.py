"""Operators that reduce axes, and operators built on them."""
