"""Operators that move, join, slice and create tensors without arithmetic."""
